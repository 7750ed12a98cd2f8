// Keeps a page up to date: events of the service make htmx fetch the part that changes; uPlot draws the charts.
"use strict";

const RETRY_MILLISECONDS = 10000;
const POLL_MILLISECONDS = 2000;

function announceChanges() {
  const live = () => document.getElementById("live");
  if (!live() || !live().hasAttribute("hx-get")) return;
  const state = document.getElementById("stream");
  let newest = document.body.dataset.newest;
  let source = null, retry = 0, timer = 0;
  const refresh = () => document.body.dispatchEvent(new CustomEvent("changed"));
  const announce = (event) => {
    newest = event.lastEventId;
    const decision = JSON.parse(event.data);
    const { cluster, balancer } = live().dataset;
    if (cluster && (decision.cluster !== cluster || decision.balancer !== balancer)) return;
    // Several decisions come together; one request shows them all.
    clearTimeout(timer);
    timer = setTimeout(refresh, 300);
  };
  const connect = () => {
    disconnect();
    source = new EventSource("/api/v1/events?after=" + newest);
    source.addEventListener("decision", announce);
    source.onopen = () => { state.textContent = "live"; };
    source.onerror = () => {
      const isRefused = source.readyState === EventSource.CLOSED;
      state.textContent = isRefused ? "no connection; reload the page" : "connection lost, trying again";
      if (!isRefused) return;
      retry = setTimeout(connect, RETRY_MILLISECONDS);
      fetch("/api/v1/clusters").then((answer) => {
        if (answer.status === 401) state.textContent = "the session has ended; reload the page to log in again";
      }).catch(() => {});
    };
  };
  const disconnect = () => {
    clearTimeout(retry);
    if (source) source.close();
    state.textContent = "not connected";
  };
  // A browser opens few connections to one origin, so a page that nobody sees gives its own back.
  const follow = () => (document.hidden ? disconnect() : connect());
  document.addEventListener("visibilitychange", follow);
  follow();
  // Bytes of an execution grow without decisions.
  setInterval(() => { if (!document.hidden && live().dataset.poll) refresh(); }, POLL_MILLISECONDS);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function percent(value, digits) {
  return value == null ? "–" : (100 * value).toFixed(digits) + "%";
}

const charts = [];

function drawChart(id, at, lines, digits) {
  const place = document.getElementById(id);
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 } };
  const options = {
    width: place.clientWidth,
    height: 220,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    scales: { y: { range: (_, low, high) => [0, Math.max(0.1, high * 1.1)] } },
    axes: [
      { ...axis, values: [[3600, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
      { ...axis, size: 48, values: (_, ticks) => ticks.map((one) => percent(one, 0)) },
    ],
    series: [
      { label: "Time", value: "{YYYY}-{MM}-{DD} {HH}:{mm}Z" },
      ...lines.map((line) => ({
        label: line.label, stroke: colour(line.colour), width: line.width || 1.5, dash: line.dash, spanGaps: true,
        points: { show: false }, value: (_, value) => percent(value, digits),
      })),
    ],
  };
  charts.push(new uPlot(options, [at, ...lines.map((line) => line.values)], place));
}

function drawCharts() {
  const source = document.getElementById("series");
  if (!source || !window.uPlot) return;
  const series = JSON.parse(source.textContent);
  for (const chart of charts.splice(0)) chart.destroy();
  document.getElementById("charts").hidden = false;
  const name = (one) => (one === "cpu" ? "CPU" : one.replaceAll("_", " "));
  const resources = Object.keys(series.deviation);
  const stroke = (place) => "--s" + (1 + place % 5);
  const flat = (length, value) => Array(length).fill(value);
  drawChart("chart-deviation", series.at, [
    ...resources.map((one, place) => ({ label: name(one), colour: stroke(place), values: series.deviation[one] })),
    { label: "drift begins", colour: "--dim", dash: [6, 4], values: flat(series.at.length, series.begin) },
  ], 1);
  const at = [...series.at, ...series.forecast_at];
  const past = series.at.length, ahead = series.forecast_at.length;
  const lines = Object.keys(series.peak).map((one, place) => ({
    label: name(one), colour: stroke(place), values: [...series.peak[one], ...flat(ahead, null)],
  }));
  Object.keys(series.forecast_peak).forEach((one) => {
    const place = Object.keys(series.peak).indexOf(one);
    lines.push({ label: name(one) + " forecast", colour: stroke(place), dash: [2, 3], values: [...flat(past, null), ...series.forecast_peak[one]] });
  });
  if (series.limit != null) lines.push({ label: "θ", colour: "--bad", dash: [6, 4], values: flat(at.length, series.limit) });
  drawChart("chart-peak", at, lines, 0);
}

addEventListener("DOMContentLoaded", () => {
  announceChanges();
  drawCharts();
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(drawCharts, 200); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
});
