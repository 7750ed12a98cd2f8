import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What stands in for a broker's parts where Pulsar's classes ask for them. */
final class Fakes {
    /** What a method answers to its first argument, which is null where it has none. */
    interface Answer {
        Object to(Object argument);
    }

    private Fakes() {}

    /** An object whose constructor was not run: it would start a broker. */
    static <T> T unconstructed(Class<T> kind) throws ReflectiveOperationException {
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return kind.cast(((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(kind));
    }

    /** An interface with some of its methods; a call of any other is an error. */
    static <T> T answering(Class<T> kind, Map<String, Answer> answers) {
        return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind},
                (proxy, method, arguments) -> {
                    Answer answer = answers.get(method.getName());
                    if (answer == null) {
                        throw new IllegalStateException("nobody was to ask for " + method);
                    }
                    return answer.to(arguments == null ? null : arguments[0]);
                }));
    }

    static List<String> texts(JsonNode array) {
        List<String> found = new ArrayList<>();
        array.forEach(one -> found.add(one.asText()));
        return found;
    }
}
