import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.pulsar.broker.loadbalance.impl.SimpleResourceAllocationPolicies;
import org.apache.pulsar.common.naming.NamespaceName;
import org.apache.pulsar.common.policies.data.AutoFailoverPolicyDataImpl;
import org.apache.pulsar.common.policies.data.AutoFailoverPolicyType;
import org.apache.pulsar.common.policies.data.NamespaceIsolationDataImpl;
import org.apache.pulsar.common.policies.impl.NamespaceIsolationPolicies;

/** Isolation policies at hand, where a broker would read them from a store. */
final class Isolation extends SimpleResourceAllocationPolicies {
    private final NamespaceIsolationPolicies policies;

    Isolation(JsonNode laidDown) {
        super(null);
        Map<String, NamespaceIsolationDataImpl> named = new HashMap<>();
        laidDown.forEach(one -> named.put("policy-" + named.size(), NamespaceIsolationDataImpl.builder()
                .namespaces(Fakes.texts(one.get("namespaces")))
                .primary(Fakes.texts(one.get("primary")))
                .secondary(Fakes.texts(one.get("secondary")))
                .autoFailoverPolicy(AutoFailoverPolicyDataImpl.builder()
                        .policyType(AutoFailoverPolicyType.min_available)
                        .parameters(Map.of("min_limit", one.get("min_limit").asText(), "usage_threshold", "1"))
                        .build())
                .build()));
        policies = new NamespaceIsolationPolicies(named);
    }

    @Override
    public CompletableFuture<Boolean> areIsolationPoliciesPresentAsync(NamespaceName namespace) {
        return CompletableFuture.completedFuture(areIsolationPoliciesPresent(namespace));
    }

    @Override
    public boolean areIsolationPoliciesPresent(NamespaceName namespace) {
        return policies.getPolicyByNamespace(namespace) != null;
    }

    @Override
    public boolean isPrimaryBroker(NamespaceName namespace, String host) {
        return policies.getPolicyByNamespace(namespace).isPrimaryBroker(host);
    }

    @Override
    public boolean isSecondaryBroker(NamespaceName namespace, String host) {
        return policies.getPolicyByNamespace(namespace).isSecondaryBroker(host);
    }

    @Override
    public boolean isSharedBroker(String host) {
        return policies.isSharedBroker(host);
    }

    @Override
    public boolean shouldFailoverToSecondaries(NamespaceName namespace, int primaries) {
        return policies.getPolicyByNamespace(namespace).shouldFailover(primaries);
    }
}
