"""Libraries for processes of our users: they carry out, at each message or record, what `online` decides."""
