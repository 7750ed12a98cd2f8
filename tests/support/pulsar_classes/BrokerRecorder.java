import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.LoadManager;
import org.apache.pulsar.broker.loadbalance.extensions.BrokerRegistry;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl;
import org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerWrapper;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitState;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateChannel;
import org.apache.pulsar.broker.loadbalance.extensions.channel.ServiceUnitStateData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.filter.AntiAffinityGroupPolicyFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerIsolationPoliciesFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerLoadManagerClassFilter;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitCounter;
import org.apache.pulsar.broker.loadbalance.extensions.models.SplitDecision;
import org.apache.pulsar.broker.loadbalance.extensions.policies.AntiAffinityGroupPolicyHelper;
import org.apache.pulsar.broker.loadbalance.extensions.policies.IsolationPoliciesHelper;
import org.apache.pulsar.broker.loadbalance.extensions.strategy.DefaultNamespaceBundleSplitStrategyImpl;
import org.apache.pulsar.broker.loadbalance.impl.BundleRangeCache;
import org.apache.pulsar.broker.loadbalance.impl.LoadManagerShared;
import org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.broker.resources.LocalPoliciesResources;
import org.apache.pulsar.broker.resources.PulsarResources;
import org.apache.pulsar.broker.service.BrokerService;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.policies.data.LocalPolicies;
import org.apache.pulsar.common.policies.data.stats.TopicStatsImpl;
import org.apache.pulsar.policies.data.loadbalancer.NamespaceBundleStats;

/**
 * Asks those rules of Pulsar's own classes that want a broker around them: policies of namespaces, bundles that it
 * owns, their statistics.
 *
 * <p>Each line of standard input is a question, with its "rule", and gets one line of standard output.
 */
public final class BrokerRecorder {
    private static final ObjectMapper JSON =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    private static final String SELF = "a:8080";

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            answer.set("found", JSON.valueToTree(new BrokerRecorder(JSON.readTree(line)).answer()));
            System.out.println("decision " + JSON.writeValueAsString(answer));
        }
        System.out.flush();
        // Classes of Pulsar start threads of their own.
        Runtime.getRuntime().halt(0);
    }

    /** As much of a broker as the classes ask for; never constructed, like all that is in it. */
    private static final class Broker extends PulsarService {
        private ServiceConfiguration configuration;
        private Namespaces namespaces;
        private Service service;
        private Resources resources;
        private AtomicReference<LoadManager> manager;

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

        @Override
        public BrokerService getBrokerService() {
            return service;
        }

        @Override
        public PulsarResources getPulsarResources() {
            return resources;
        }

        @Override
        public AtomicReference<LoadManager> getLoadManager() {
            return manager;
        }
    }

    /** Topics called #7 have the hash 7. */
    private static final class Factory extends NamespaceBundleFactory {
        private Factory() {
            super(null, null);
        }

        @Override
        public long getLongHashCode(String name) {
            return Long.parseLong(name.substring(name.indexOf('#') + 1));
        }

        /** There is no cache. */
        @Override
        public void invalidateBundleCache(NamespaceName namespace) {}
    }

    private static final class Namespaces extends NamespaceService {
        private Factory factory;
        private JsonNode bundles;
        private JsonNode topics;

        private Namespaces() {
            super(null);
        }

        @Override
        public NamespaceBundleFactory getNamespaceBundleFactory() {
            return factory;
        }

        @Override
        public int getBundleCount(NamespaceName namespace) {
            return bundles.get(namespace.toString()).asInt();
        }

        @Override
        public CompletableFuture<List<String>> getOwnedTopicListForNamespaceBundle(NamespaceBundle bundle) {
            List<String> names = new ArrayList<>();
            topics.path(bundle.toString()).forEach(one -> names.add(one.get("name").asText()));
            return CompletableFuture.completedFuture(names);
        }
    }

    private static final class Service extends BrokerService {
        private Map<String, NamespaceBundleStats> stats;
        private JsonNode topics;

        private Service() throws Exception {
            super(null, null);
        }

        @Override
        public Map<String, NamespaceBundleStats> getBundleStats() {
            return stats;
        }

        @Override
        public Map<String, TopicStatsImpl> getTopicStats(NamespaceBundle bundle) {
            Map<String, TopicStatsImpl> found = new LinkedHashMap<>();
            topics.path(bundle.toString()).forEach(topic -> {
                TopicStatsImpl one = new TopicStatsImpl();
                one.msgRateIn = topic.get("rate").asDouble();
                one.msgThroughputIn = topic.get("throughput").asDouble();
                found.put(topic.get("name").asText(), one);
            });
            return found;
        }
    }

    private static final class Resources extends PulsarResources {
        private Groups groups;

        private Resources() {
            super(null, null);
        }

        @Override
        public LocalPoliciesResources getLocalPolicies() {
            return groups;
        }
    }

    /** Anti-affinity groups of namespaces; those that are not named have no policies at all. */
    private static final class Groups extends LocalPoliciesResources {
        private JsonNode named;

        private Groups() {
            super(null, 0);
        }

        @Override
        public Optional<LocalPolicies> getLocalPolicies(NamespaceName namespace) {
            JsonNode group = named.get(namespace.toString());
            return group == null ? Optional.empty() : Optional.of(new LocalPolicies(null, null, group.asText()));
        }

        @Override
        public CompletableFuture<Optional<LocalPolicies>> getLocalPoliciesAsync(NamespaceName namespace) {
            return CompletableFuture.completedFuture(getLocalPolicies(namespace));
        }
    }

    /** The modular manager, which knows the brokers of the question and what they have. */
    private static final class Leader extends ModularLoadManagerImpl {
        private Set<String> available;

        @Override
        public Set<String> getAvailableBrokers() {
            return available;
        }
    }

    private static final class Extensible extends ExtensibleLoadManagerImpl {
        private ServiceUnitStateChannel channel;

        @Override
        public ServiceUnitStateChannel getServiceUnitStateChannel() {
            return channel;
        }
    }

    private final JsonNode asked;
    private final Broker broker = Fakes.unconstructed(Broker.class);
    private final Map<String, ServiceUnitStateData> units = new LinkedHashMap<>();
    private final Set<String> owned = new HashSet<>();
    private final ServiceUnitStateChannel channel = Fakes.answering(ServiceUnitStateChannel.class, Map.of(
            "getOwnershipEntrySet", none -> units.entrySet(), "isOwner", owned::contains));

    private BrokerRecorder(JsonNode asked) throws Exception {
        this.asked = asked;
        Properties options = new Properties();
        asked.path("options").fields().forEachRemaining(one -> options.put(one.getKey(), one.getValue().asText()));
        broker.configuration = PulsarConfigurationLoader.create(options, ServiceConfiguration.class);
        broker.namespaces = Fakes.unconstructed(Namespaces.class);
        broker.namespaces.factory = Fakes.unconstructed(Factory.class);
        broker.namespaces.bundles = asked.path("bundles");
        broker.namespaces.topics = asked.path("topics");
        set(NamespaceService.class, "config", broker.namespaces, broker.configuration);
        set(NamespaceService.class, "pulsar", broker.namespaces, broker);
        broker.service = Fakes.unconstructed(Service.class);
        broker.service.topics = asked.path("topics");
        broker.resources = Fakes.unconstructed(Resources.class);
        broker.resources.groups = Fakes.unconstructed(Groups.class);
        broker.resources.groups.named = asked.path("groups");
        Extensible manager = Fakes.unconstructed(Extensible.class);
        manager.channel = channel;
        broker.manager = new AtomicReference<>(new ExtensibleLoadManagerWrapper(manager));
    }

    private Object answer() throws Exception {
        return switch (asked.get("rule").asText()) {
            case "splits" -> splits();
            case "anti-affinity" -> withFewestOfGroup();
            case "owned anti-affinity" -> filtered(new AntiAffinityGroupPolicyFilter(helper()));
            case "leaving" -> mayLeave();
            case "published isolation" -> filtered(new BrokerIsolationPoliciesFilter(
                    new IsolationPoliciesHelper(new Isolation(asked.get("policies")))));
            case "load manager" -> filtered(new BrokerLoadManagerClassFilter());
            default -> throw new IllegalStateException("no such rule: " + asked);
        };
    }

    /** Cycle by cycle: each bundle that is split, the reason, and where. */
    private Object splits() throws Exception {
        var strategy = new DefaultNamespaceBundleSplitStrategyImpl(new SplitCounter());
        List<Object> found = new ArrayList<>();
        for (JsonNode cycle : asked.get("cycles")) {
            broker.service.stats = new LinkedHashMap<>();
            for (var one : (Iterable<Map.Entry<String, JsonNode>>) () -> cycle.get("stats").fields()) {
                broker.service.stats.put(one.getKey(), JSON.treeToValue(one.getValue(), NamespaceBundleStats.class));
            }
            owned.clear();
            owned.addAll(Fakes.texts(cycle.get("owned")));
            units.clear();
            owned.forEach(bundle -> units.put(bundle, state(ServiceUnitState.Owned, SELF)));
            Fakes.texts(cycle.get("splitting"))
                    .forEach(bundle -> units.put(bundle, state(ServiceUnitState.Splitting, SELF)));
            Map<String, Object> split = new TreeMap<>();
            Set<SplitDecision> decided;
            try {
                decided = strategy.findBundlesToSplit(context(), broker);
            } catch (IllegalArgumentException thrown) {
                found.add("thrown");
                continue;
            }
            for (SplitDecision one : decided) {
                List<Long> ends = new ArrayList<>();
                one.getSplit().splitServiceUnitToDestBroker().keySet().forEach(range -> {
                    for (String end : range.split("_")) {
                        ends.add(Long.decode(end));
                    }
                });
                ends.sort(null);
                split.put(one.getSplit().serviceUnit(), List.of(one.getReason().toString(), ends.get(1)));
            }
            found.add(split);
        }
        return found;
    }

    private Object withFewestOfGroup() {
        Set<String> candidates = new LinkedHashSet<>(Fakes.texts(asked.get("candidates")));
        LoadManagerShared.filterAntiAffinityGroupOwnedBrokers(
                broker, asked.get("bundle").asText(), candidates, held(), domains());
        return new TreeSet<>(candidates);
    }

    private Object mayLeave() throws Exception {
        Leader leader = Fakes.unconstructed(Leader.class);
        leader.available = new LinkedHashSet<>(Fakes.texts(asked.get("candidates")));
        var everybody = Fakes.answering(LoadManagerShared.BrokerTopicLoadingPredicate.class, Map.of(
                "isEnablePersistentTopics", name -> true, "isEnableNonPersistentTopics", name -> true));
        set(ModularLoadManagerImpl.class, "pulsar", leader, broker);
        set(ModularLoadManagerImpl.class, "policies", leader, new Isolation(asked.get("policies")));
        set(ModularLoadManagerImpl.class, "brokerCandidateCache", leader, new HashSet<>());
        set(ModularLoadManagerImpl.class, "brokerToNamespaceToBundleRange", leader, held());
        set(ModularLoadManagerImpl.class, "brokerTopicLoadingPredicate", leader, everybody);
        String bundle = asked.get("bundle").asText();
        String namespace = LoadManagerShared.getNamespaceNameFromBundleName(bundle);
        String range = LoadManagerShared.getBundleRangeFromBundleName(bundle);
        List<Boolean> found = new ArrayList<>();
        for (String owner : Fakes.texts(asked.get("owners"))) {
            found.add(leader.shouldNamespacePoliciesUnload(namespace, range, owner)
                    && leader.shouldAntiAffinityNamespaceUnload(namespace, range, owner));
        }
        return found;
    }

    private AntiAffinityGroupPolicyHelper helper() throws Exception {
        asked.get("held").fields().forEachRemaining(one -> one.getValue().forEach(bundle ->
                units.put(bundle.asText(), state(ServiceUnitState.Owned, one.getKey()))));
        asked.get("free").forEach(bundle -> units.put(bundle.asText(), state(ServiceUnitState.Free, SELF)));
        var helper = new AntiAffinityGroupPolicyHelper(broker, channel);
        set(AntiAffinityGroupPolicyHelper.class, "brokerToFailureDomainMap", helper, domains());
        return helper;
    }

    private Object filtered(org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerFilter filter)
            throws Exception {
        Map<String, BrokerLookupData> brokers = new LinkedHashMap<>();
        asked.get("candidates").forEach(name -> {
            JsonNode manager = asked.path("managers").path(name.asText());
            brokers.put(name.asText(), new BrokerLookupData("", "", "", "", Map.of(), Map.of(), true, true,
                    manager.isTextual() ? manager.asText() : null, 0, "", Map.of()));
        });
        String bundle = asked.get("bundle").asText();
        NamespaceBundle unit = broker.namespaces.factory.getBundle(
                LoadManagerShared.getNamespaceNameFromBundleName(bundle),
                LoadManagerShared.getBundleRangeFromBundleName(bundle));
        return new TreeSet<>(filter.filterAsync(brokers, unit, context()).get().keySet());
    }

    private BundleRangeCache held() {
        BundleRangeCache cache = new BundleRangeCache();
        asked.get("held").fields().forEachRemaining(one -> one.getValue().forEach(bundle -> cache.add(one.getKey(),
                LoadManagerShared.getNamespaceNameFromBundleName(bundle.asText()),
                LoadManagerShared.getBundleRangeFromBundleName(bundle.asText()))));
        return cache;
    }

    private Map<String, String> domains() {
        Map<String, String> found = new HashMap<>();
        asked.get("domains").fields().forEachRemaining(one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    private LoadManagerContext context() {
        BrokerRegistry registry = Fakes.answering(BrokerRegistry.class, Map.of("getBrokerId", none -> SELF));
        return Fakes.answering(LoadManagerContext.class, Map.of(
                "brokerConfiguration", none -> broker.configuration, "brokerRegistry", none -> registry));
    }

    private static ServiceUnitStateData state(ServiceUnitState state, String owner) {
        return new ServiceUnitStateData(state, owner, 1);
    }

    private static void set(Class<?> kind, String name, Object object, Object value) throws Exception {
        Field field = kind.getDeclaredField(name);
        field.setAccessible(true);
        field.set(object, value);
    }
}
