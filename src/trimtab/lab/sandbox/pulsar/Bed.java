import java.io.File;
import java.net.InetSocketAddress;
import java.util.Arrays;
import org.apache.pulsar.PulsarClusterMetadataSetup;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/**
 * What brokers stand on, in one process: metadata store, its first entries, and a bookie.
 *
 * <p>Arguments: data folder and port of the metadata store, configuration of the bookie, then those of
 * Pulsar's own cluster set-up. Pulsar's standalone starter would listen on all interfaces.
 */
public final class Bed {
    private static final int TICK_MS = 2_000;
    private static final int MAX_CONNECTIONS = 200;

    private Bed() {}

    public static void main(String[] arguments) {
        try {
            run(arguments);
        } catch (Throwable failure) {
            // The metadata store's threads would keep a process alive that will never be ready.
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] arguments) throws Exception {
        File data = new File(arguments[0]);
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[1]));
        NIOServerCnxnFactory connections = new NIOServerCnxnFactory();
        connections.configure(address, MAX_CONNECTIONS);
        connections.startup(new ZooKeeperServer(data, data, TICK_MS));
        PulsarClusterMetadataSetup.main(Arrays.copyOfRange(arguments, 3, arguments.length));
        org.apache.bookkeeper.server.Main.main(new String[] {"--conf", arguments[2]});
    }
}
