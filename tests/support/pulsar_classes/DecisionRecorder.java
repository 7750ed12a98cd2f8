import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LeaderElectionService;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.LoadSheddingStrategy;
import org.apache.pulsar.broker.loadbalance.ModularLoadManagerStrategy;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.data.TopBundlesLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.models.TopKBundles;
import org.apache.pulsar.broker.loadbalance.extensions.models.Unload;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.UnloadDecision;
import org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.BrokerSelectionStrategy;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;
import org.apache.pulsar.broker.loadbalance.impl.BundleSplitterTask;
import org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.metadata.api.coordination.LockManager;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage;

/**
 * Asks Pulsar's own classes what they decide. Reports are taken in by the leader's own code; grace times and
 * what is unloaded are kept here, for the leader goes by the clock.
 *
 * <p>A line of standard input with "strategy", "placements" and "options" begins a run; every other is a tick
 * of it ("ms", "brokers" as in load reports) and gets one line of standard output.
 */
public final class DecisionRecorder {
    private static final String PACKAGE = "org.apache.pulsar.broker.loadbalance.impl.";
    private static final String EXTENSIONS = "extensions.";
    private static final String STRATEGIES = "org.apache.pulsar.broker.loadbalance.extensions.strategy.";
    private static final ObjectMapper JSON =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        DecisionRecorder run = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode given = JSON.readTree(line);
            if (given.has("strategy")) {
                run = new DecisionRecorder(given);
                continue;
            }
            ObjectNode answer = JSON.createObjectNode();
            try {
                run.tick(given, answer);
            } catch (IllegalArgumentException thrown) {
                answer.put("thrown", thrown.getMessage());
            }
            System.out.println("decision " + JSON.writeValueAsString(answer));
        }
        System.out.flush();
        // Classes of Pulsar start threads of their own.
        Runtime.getRuntime().halt(0);
    }

    /** As much of a broker as the classes ask for; never constructed. */
    private static final class Broker extends PulsarService {
        private ServiceConfiguration configuration;
        private Namespaces namespaces;

        private Broker() {
            super(null);
        }

        @Override
        public ServiceConfiguration getConfiguration() {
            return configuration;
        }

        @Override
        public NamespaceService getNamespaceService() {
            return namespaces;
        }

        /** None: there is no store from which a leader would delete what it forgets. */
        @Override
        public LeaderElectionService getLeaderElectionService() {
            return null;
        }
    }

    /** Every namespace has as many bundles as are reported; never constructed. */
    private static final class Namespaces extends NamespaceService {
        private Map<String, Integer> bundles;

        private Namespaces() {
            super(null);
        }

        @Override
        public int getBundleCount(NamespaceName namespace) {
            return bundles.getOrDefault(namespace.toString(), 0);
        }

        @Override
        public Set<NamespaceBundle> getOwnedServiceUnits() {
            return Set.of();
        }
    }

    /** The leader, of whom nothing is stored: no quotas, and no means of bundles from before. */
    private static final class Leader extends ModularLoadManagerImpl {
        private final NamespaceBundleStats defaults = new NamespaceBundleStats();
        private Map<String, LocalBrokerData> reports = Map.of();

        private Leader(Broker broker) throws Exception {
            defaults.msgRateIn = defaults.msgRateOut = 50;
            defaults.msgThroughputIn = defaults.msgThroughputOut = 50000;
            set("pulsar", broker);
            set("conf", broker.configuration);
            set("brokersData", Fakes.answering(LockManager.class, Map.of("readLock", path -> {
                String name = path.toString();
                return CompletableFuture.completedFuture(
                        Optional.ofNullable(reports.get(name.substring(name.lastIndexOf('/') + 1))));
            })));
        }

        private void set(String name, Object value) throws Exception {
            Field field = ModularLoadManagerImpl.class.getDeclaredField(name);
            field.setAccessible(true);
            field.set(this, value);
        }

        private LoadData data() throws Exception {
            Field field = ModularLoadManagerImpl.class.getDeclaredField("loadData");
            field.setAccessible(true);
            return (LoadData) field.get(this);
        }

        private void takeIn(Map<String, LocalBrokerData> reports) throws Exception {
            this.reports = reports;
            for (String name : List.of("updateAllBrokerData", "updateBundleData")) {
                Method method = ModularLoadManagerImpl.class.getDeclaredMethod(name);
                method.setAccessible(true);
                method.invoke(this);
            }
        }

        @Override
        public Set<String> getAvailableBrokers() {
            return reports.keySet();
        }

        // One of the two is the leader's own, by its version.
        public BundleData getBundleDataOrDefault(String bundle) {
            return new BundleData(10, 1000, defaults);
        }

        public CompletableFuture<BundleData> getBundleDataOrDefaultAsync(String bundle) {
            return CompletableFuture.completedFuture(getBundleDataOrDefault(bundle));
        }
    }

    private final ServiceConfiguration configuration;
    private final Broker broker = Fakes.unconstructed(Broker.class);
    private final LoadSheddingStrategy shedder;
    private final TransferShedder transferShedder;
    private final Map<String, ModularLoadManagerStrategy> placements = new LinkedHashMap<>();
    private final Map<String, BrokerSelectionStrategy> selections = new LinkedHashMap<>();
    private final BundleSplitterTask splitter = new BundleSplitterTask();
    private final Leader leader;
    private final LoadData data;
    private final Map<String, BrokerLoadData> published = new ConcurrentHashMap<>();
    private final Map<String, Long> brokersUnloadedAt = new HashMap<>();

    private DecisionRecorder(JsonNode run) throws Exception {
        Properties options = new Properties();
        run.get("options").fields().forEachRemaining(one -> options.put(one.getKey(), one.getValue().asText()));
        configuration = PulsarConfigurationLoader.create(options, ServiceConfiguration.class);
        broker.configuration = configuration;
        broker.namespaces = Fakes.unconstructed(Namespaces.class);
        leader = new Leader(broker);
        data = leader.data();
        String name = run.get("strategy").asText();
        boolean extensible = name.equals("TransferShedder");
        transferShedder = extensible ? new TransferShedder(new UnloadCounter()) : null;
        shedder = extensible ? null : (LoadSheddingStrategy) made(name);
        for (JsonNode placement : run.get("placements")) {
            String asked = placement.asText();
            if (asked.startsWith(EXTENSIONS)) {
                selections.put(asked, (BrokerSelectionStrategy) Class.forName(
                        STRATEGIES + asked.substring(EXTENSIONS.length())).getDeclaredConstructor().newInstance());
            } else {
                placements.put(asked, (ModularLoadManagerStrategy) made(asked));
            }
        }
    }

    private static Object made(String name) throws Exception {
        return Class.forName(PACKAGE + name).getDeclaredConstructor().newInstance();
    }

    private void tick(JsonNode given, ObjectNode answer) throws Exception {
        long at = given.get("ms").asLong();
        Map<String, LocalBrokerData> reports = new LinkedHashMap<>();
        for (var one : (Iterable<Map.Entry<String, JsonNode>>) () -> given.get("brokers").fields()) {
            reports.put(one.getKey(), JSON.treeToValue(one.getValue(), LocalBrokerData.class));
        }
        takeIn(reports);
        Map<String, Long> recent = data.getRecentlyUnloadedBundles();
        long oldest = at - TimeUnit.MINUTES.toMillis(configuration.getLoadBalancerSheddingGracePeriodMinutes());
        recent.values().removeIf(unloadedAt -> unloadedAt < oldest);
        ObjectNode unloads = answer.putObject("unloads");
        ObjectNode destinations = answer.putObject("destinations");
        ObjectNode pools = answer.putObject("pools");
        if (transferShedder != null) {
            publish(reports);
            if (reports.size() > 1) {
                transfer(reports, at, recent, unloads, destinations);
            }
        } else if (reports.size() > 1) {
            shed(reports, at, recent, unloads, destinations);
        }
        for (var placement : placements.entrySet()) {
            pools.set(placement.getKey(), JSON.valueToTree(pool(placement.getValue(), reports.keySet())));
        }
        for (var selection : selections.entrySet()) {
            pools.set(selection.getKey(), JSON.valueToTree(pool(selection.getValue(), reports.keySet())));
        }
        answer.set("splits", JSON.valueToTree(splitter.findBundlesToSplit(data, broker)));
    }

    /** What ModularLoadManagerImpl does with new reports: brokers gone and come, means, sums by broker. */
    private void takeIn(Map<String, LocalBrokerData> reports) throws Exception {
        if (shedder != null) {
            shedder.onActiveBrokersChange(reports.keySet());
        }
        placements.values().forEach(placement -> placement.onActiveBrokersChange(reports.keySet()));
        leader.takeIn(reports);
        broker.namespaces.bundles = new HashMap<>();
        for (String bundle : data.getBundleData().keySet()) {
            broker.namespaces.bundles.merge(bundle.substring(0, bundle.lastIndexOf('/')), 1, Integer::sum);
        }
    }

    private void shed(Map<String, LocalBrokerData> reports, long at, Map<String, Long> recent,
            ObjectNode unloads, ObjectNode destinations) {
        var chosen = shedder.findBundlesForUnloading(data, configuration);
        chosen.asMap().forEach((name, bundles) -> unloads.set(name, JSON.valueToTree(bundles)));
        chosen.values().forEach(bundle -> {
            if (shedder instanceof AvgShedder both) {
                BundleData known = data.getBundleData().get(bundle);
                destinations.put(bundle, both.selectBroker(
                        new HashSet<>(reports.keySet()), known, data, configuration).orElseThrow());
            }
            recent.put(bundle, at);
        });
    }

    /** The brokers that one choice was drawn from, or the one whose turn it was. */
    private List<?> pool(ModularLoadManagerStrategy placement, Set<String> brokers) throws Exception {
        Set<String> candidates = new HashSet<>();
        candidates.addAll(brokers);
        BundleData unknown = leader.getBundleDataOrDefault("");
        String chosen = placement.selectBroker(candidates, unknown, data, configuration).orElseThrow();
        try {
            Field best = placement.getClass().getDeclaredField("bestBrokers");
            best.setAccessible(true);
            return new ArrayList<>((List<?>) best.get(placement));
        } catch (NoSuchFieldException none) {
            return List.of(chosen);
        }
    }

    /** The same of a placement of the extensible manager, which goes by what brokers have published. */
    private List<?> pool(BrokerSelectionStrategy selection, Set<String> brokers) throws Exception {
        Set<String> candidates = new HashSet<>();
        candidates.addAll(brokers);
        LoadDataStore<?> loads = Fakes.answering(LoadDataStore.class, Map.of(
                "get", name -> Optional.ofNullable(published.get(name))));
        LoadManagerContext context = Fakes.answering(LoadManagerContext.class, Map.of(
                "brokerConfiguration", none -> configuration, "brokerLoadDataStore", none -> loads));
        selection.select(candidates, null, context).orElseThrow();
        Field best = selection.getClass().getDeclaredField("bestBrokers");
        best.setAccessible(true);
        return new ArrayList<>((List<?>) ((ThreadLocal<?>) best.get(selection)).get());
    }

    private void publish(Map<String, LocalBrokerData> reports) throws Exception {
        published.keySet().retainAll(reports.keySet());
        reports.forEach((name, report) -> {
            SystemResourceUsage usage = new SystemResourceUsage();
            usage.setCpu(report.getCpu());
            usage.setMemory(report.getMemory());
            usage.setDirectMemory(report.getDirectMemory());
            usage.setBandwidthIn(report.getBandwidthIn());
            usage.setBandwidthOut(report.getBandwidthOut());
            published.computeIfAbsent(name, missing -> new BrokerLoadData()).update(usage,
                    report.getMsgThroughputIn(), report.getMsgThroughputOut(), report.getMsgRateIn(),
                    report.getMsgRateOut(), report.getLastStats().size(), 0, configuration);
        });
    }

    /** Times are moved so that this tick is now: the shedder looks at the clock itself. */
    private void transfer(Map<String, LocalBrokerData> reports, long at, Map<String, Long> recent,
            ObjectNode unloads, ObjectNode destinations) throws Exception {
        long now = System.currentTimeMillis();
        Field updatedAt = BrokerLoadData.class.getDeclaredField("updatedAt");
        updatedAt.setAccessible(true);
        Map<String, TopBundlesLoadData> top = new HashMap<>();
        Map<String, BrokerLookupData> available = new HashMap<>();
        for (var one : reports.entrySet()) {
            updatedAt.set(published.get(one.getKey()), now);
            top.put(one.getKey(), heaviest(one.getValue()));
            available.put(one.getKey(), null);
        }
        LoadDataStore<?> loads = Fakes.answering(LoadDataStore.class, Map.of(
                "get", name -> Optional.ofNullable(published.get(name)), "entrySet", none -> published.entrySet()));
        LoadDataStore<?> bundles = Fakes.answering(LoadDataStore.class, Map.of(
                "get", name -> Optional.ofNullable(top.get(name))));
        BrokerRegistry registry = Fakes.answering(BrokerRegistry.class, Map.of(
                "getAvailableBrokerLookupDataAsync", none -> CompletableFuture.completedFuture(available)));
        LoadManagerContext context = Fakes.answering(LoadManagerContext.class, Map.of(
                "brokerConfiguration", none -> configuration, "brokerRegistry", none -> registry,
                "brokerLoadDataStore", none -> loads, "topBundleLoadDataStore", none -> bundles));
        Map<String, Long> moved = new HashMap<>();
        brokersUnloadedAt.forEach((name, then) -> moved.put(name, then - at + now));
        for (UnloadDecision decision : transferShedder.findBundlesForUnloading(context, recent, moved)) {
            Unload unload = decision.getUnload();
            unloads.withArray("/" + unload.sourceBroker()).add(unload.serviceUnit());
            unload.destBroker().ifPresent(target -> destinations.put(unload.serviceUnit(), target));
            recent.put(unload.serviceUnit(), at);
            brokersUnloadedAt.put(unload.sourceBroker(), at);
        }
    }

    private TopBundlesLoadData heaviest(LocalBrokerData report) {
        TopKBundles bundles = new TopKBundles(broker);
        // Otherwise it would look for policies in a metadata store; there are none.
        configuration.setLoadBalancerSheddingBundlesWithPoliciesEnabled(true);
        bundles.update(report.getLastStats(), configuration.getLoadBalancerMaxNumberOfBundlesInBundleLoadReport());
        return bundles.getLoadData();
    }
}
