import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.common.collect.BoundType;
import com.google.common.collect.Range;
import com.google.common.hash.Hashing;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.BrokerFilterException;
import org.apache.pulsar.broker.loadbalance.LoadData;
import org.apache.pulsar.broker.loadbalance.extensions.LoadManagerContext;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData;
import org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLookupData;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerMaxTopicCountFilter;
import org.apache.pulsar.broker.loadbalance.extensions.filter.BrokerVersionFilter;
import org.apache.pulsar.broker.loadbalance.extensions.store.LoadDataStore;
import org.apache.pulsar.broker.loadbalance.impl.BundleRangeCache;
import org.apache.pulsar.broker.loadbalance.impl.LoadManagerShared;
import org.apache.pulsar.broker.namespace.NamespaceService;
import org.apache.pulsar.common.naming.BundleSplitOption;
import org.apache.pulsar.common.naming.ConsistentHashingTopicBundleAssigner;
import org.apache.pulsar.common.naming.FlowOrQpsEquallyDivideBundleSplitOption;
import org.apache.pulsar.common.naming.NamespaceBundle;
import org.apache.pulsar.common.naming.NamespaceBundleFactory;
import org.apache.pulsar.common.naming.NamespaceBundleSplitAlgorithm;
import org.apache.pulsar.common.naming.NamespaceBundles;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.naming.TopicBundleAssignmentStrategy;
import org.apache.pulsar.common.naming.TopicName;
import org.apache.pulsar.common.policies.data.stats.TopicStatsImpl;
import org.apache.pulsar.policies.data.loadbalancer.BrokerData;
import org.apache.pulsar.policies.data.loadbalancer.BundleData;
import org.apache.pulsar.policies.data.loadbalancer.LocalBrokerData;
import org.apache.pulsar.policies.data.loadbalancer.SystemResourceUsage;

/**
 * Asks single rules of Pulsar's own classes: where topics lie, where bundles are cut, which brokers filters leave.
 *
 * <p>Each line of standard input is a question, with its "rule", and gets one line of standard output.
 */
public final class RuleRecorder {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final NamespaceName NAMESPACE = NamespaceName.get("t/n");

    public static void main(String[] arguments) throws Exception {
        RuleRecorder recorder = new RuleRecorder();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("found", JSON.valueToTree(recorder.answer(JSON.readTree(line))));
            } catch (IllegalArgumentException | ExecutionException | BrokerFilterException thrown) {
                answer.put("thrown", thrown.getClass().getSimpleName());
            }
            System.out.println("decision " + JSON.writeValueAsString(answer));
        }
        System.out.flush();
        // Classes of Pulsar start threads of their own.
        Runtime.getRuntime().halt(0);
    }

    /** Topics called #7 have the hash 7, so that equals and neighbours can be asked for; never constructed. */
    private static final class Factory extends NamespaceBundleFactory {
        private Factory() {
            super(null, null);
        }

        @Override
        public long getLongHashCode(String name) {
            int mark = name.indexOf('#');
            return mark < 0 ? super.getLongHashCode(name) : Long.parseLong(name.substring(mark + 1));
        }

        @Override
        public TopicBundleAssignmentStrategy getTopicBundleAssignmentStrategy() {
            return new ConsistentHashingTopicBundleAssigner();
        }
    }

    /** Knows the topics of the bundle that is asked about; never constructed. */
    private static final class Topics extends NamespaceService {
        private List<String> names;

        private Topics() {
            super(null);
        }

        @Override
        public CompletableFuture<List<String>> getOwnedTopicListForNamespaceBundle(NamespaceBundle bundle) {
            return CompletableFuture.completedFuture(names);
        }
    }

    private final Factory factory = Fakes.unconstructed(Factory.class);
    private final Topics service = Fakes.unconstructed(Topics.class);

    private RuleRecorder() throws Exception {
        Field hash = NamespaceBundleFactory.class.getDeclaredField("hashFunc");
        hash.setAccessible(true);
        hash.set(factory, Hashing.crc32());
    }

    private Object answer(JsonNode asked) throws Exception {
        return switch (asked.get("rule").asText()) {
            case "bundles" -> bundles(asked);
            case "split" -> positions(asked);
            case "topics" -> withoutManyTopics(asked);
            case "fewest" -> withFewestBundles(asked);
            case "version" -> newest(asked);
            case "isolation" -> allowed(asked);
            case "published topics" -> withoutManyPublishedTopics(asked);
            default -> throw new IllegalStateException("no such rule: " + asked);
        };
    }

    /** Hash and bundle of each topic. */
    private Object bundles(JsonNode asked) throws Exception {
        long[] boundaries = new long[asked.get("boundaries").size()];
        for (int at = 0; at < boundaries.length; at++) {
            boundaries[at] = asked.get("boundaries").get(at).asLong();
        }
        Constructor<NamespaceBundles> made = NamespaceBundles.class.getDeclaredConstructor(
                NamespaceName.class, NamespaceBundleFactory.class, Optional.class, long[].class);
        made.setAccessible(true);
        NamespaceBundles held = made.newInstance(NAMESPACE, factory, Optional.empty(), boundaries);
        List<List<Object>> found = new ArrayList<>();
        for (JsonNode topic : asked.get("topics")) {
            found.add(List.of(factory.getLongHashCode(topic.asText()),
                    held.findBundle(TopicName.get(topic.asText())).toString()));
        }
        return found;
    }

    private Object positions(JsonNode asked) throws Exception {
        long high = asked.get("high").asLong();
        BoundType end = high == 0xffffffffL ? BoundType.CLOSED : BoundType.OPEN;
        NamespaceBundle bundle = new NamespaceBundle(NAMESPACE,
                Range.range(asked.get("low").asLong(), BoundType.CLOSED, high, end), factory);
        Map<String, TopicStatsImpl> stats = new LinkedHashMap<>();
        service.names = new ArrayList<>();
        for (JsonNode topic : asked.get("topics")) {
            TopicStatsImpl one = new TopicStatsImpl();
            one.msgRateIn = topic.get("rate").asDouble();
            one.msgThroughputIn = topic.get("throughput").asDouble();
            stats.put(topic.get("name").asText(), one);
            service.names.add(topic.get("name").asText());
        }
        List<Long> specified = new ArrayList<>();
        asked.get("positions").forEach(one -> specified.add(one.asLong()));
        String name = asked.get("algorithm").asText();
        BundleSplitOption option = name.startsWith("flow")
                ? new FlowOrQpsEquallyDivideBundleSplitOption(service, bundle, specified, stats,
                        asked.get("rate").asInt(), asked.get("bandwidth").asInt(), asked.get("difference").asInt())
                : new BundleSplitOption(service, bundle, specified);
        NamespaceBundleSplitAlgorithm algorithm = name.endsWith("_force")
                ? NamespaceBundleSplitAlgorithm.SPECIFIED_POSITIONS_DIVIDE_FORCE_ALGO
                : NamespaceBundleSplitAlgorithm.of(name);
        return algorithm.getSplitBoundary(option).get();
    }

    private Object withoutManyTopics(JsonNode asked) {
        LoadData data = new LoadData();
        asked.get("brokers").fields().forEachRemaining(one -> {
            LocalBrokerData report = new LocalBrokerData();
            report.setNumTopics(one.getValue().get("reported").asInt());
            BrokerData known = new BrokerData(report);
            one.getValue().get("given").forEach(topics -> {
                BundleData bundle = new BundleData(10, 1000);
                bundle.setTopics(topics.asInt());
                known.getPreallocatedBundleData().put("t/n/" + known.getPreallocatedBundleData().size(), bundle);
            });
            data.getBrokerData().put(one.getKey(), known);
        });
        Set<String> candidates = names(asked.get("brokers"));
        LoadManagerShared.filterBrokersWithLargeTopicCount(candidates, data, asked.get("most").asInt());
        return new TreeSet<>(candidates);
    }

    private Object withFewestBundles(JsonNode asked) {
        BundleRangeCache cache = new BundleRangeCache();
        asked.get("brokers").fields().forEachRemaining(one -> one.getValue().forEach(bundle -> {
            String key = bundle.asText();
            cache.add(one.getKey(), key.substring(0, key.lastIndexOf('/')), key.substring(key.lastIndexOf('/') + 1));
        }));
        Set<String> candidates = names(asked.get("brokers"));
        LoadManagerShared.removeMostServicingBrokersForNamespace(asked.get("bundle").asText(), candidates, cache);
        return new TreeSet<>(candidates);
    }

    private Object allowed(JsonNode asked) {
        var everybody = Fakes.answering(LoadManagerShared.BrokerTopicLoadingPredicate.class, Map.of(
                "isEnablePersistentTopics", name -> true, "isEnableNonPersistentTopics", name -> true));
        Set<String> candidates = new TreeSet<>();
        LoadManagerShared.applyNamespacePolicies(NAMESPACE, new Isolation(asked.get("policies")), candidates,
                new LinkedHashSet<>(Fakes.texts(asked.get("brokers"))), everybody);
        return candidates;
    }

    private Object newest(JsonNode asked) throws Exception {
        Map<String, BrokerLookupData> brokers = new HashMap<>();
        asked.get("brokers").fields().forEachRemaining(one -> brokers.put(one.getKey(), new BrokerLookupData(
                "", "", "", "", Map.of(), Map.of(), true, true, "", 0,
                one.getValue().isNull() ? null : one.getValue().asText(), Map.of())));
        ServiceConfiguration configuration = new ServiceConfiguration();
        configuration.setPreferLaterVersions(true);
        return new TreeSet<>(new BrokerVersionFilter()
                .filterAsync(brokers, null, context(configuration, Map.of())).get().keySet());
    }

    private Object withoutManyPublishedTopics(JsonNode asked) throws Exception {
        Map<String, BrokerLoadData> published = new HashMap<>();
        Map<String, BrokerLookupData> brokers = new HashMap<>();
        ServiceConfiguration configuration = new ServiceConfiguration();
        configuration.setLoadBalancerBrokerMaxTopics(asked.get("most").asInt());
        asked.get("brokers").fields().forEachRemaining(one -> {
            brokers.put(one.getKey(), null);
            BrokerLoadData load = new BrokerLoadData();
            load.update(new SystemResourceUsage(), 0, 0, 0, 0, 1, one.getValue().asInt(), configuration);
            published.put(one.getKey(), load);
        });
        return new TreeSet<>(new BrokerMaxTopicCountFilter()
                .filterAsync(brokers, null, context(configuration, published)).get().keySet());
    }

    private static Set<String> names(JsonNode brokers) {
        Set<String> found = new LinkedHashSet<>();
        brokers.fieldNames().forEachRemaining(found::add);
        return found;
    }

    private static LoadManagerContext context(ServiceConfiguration configuration, Map<String, BrokerLoadData> loads) {
        LoadDataStore<?> store = Fakes.answering(LoadDataStore.class, Map.of(
                "get", name -> Optional.ofNullable(loads.get(name))));
        return Fakes.answering(LoadManagerContext.class, Map.of(
                "brokerConfiguration", none -> configuration, "brokerLoadDataStore", none -> store));
    }
}
