import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Tools COMMANDS BOOTSTRAP NODE: types the commands of a file, which begin with the name of one of Kafka's command-line tools, and prints
 * what they print. All run in this process, since a JVM for each takes a second or two. Between two commands nothing stays but the
 * classes of the client: those of the tools are loaded anew. commands.txt tells the format.
 */
public final class Tools {
    static final long LIMIT_MS = 60_000;
    static final String T = "org.apache.kafka.tools.";
    static final Map<String, String> CLASSES = Map.ofEntries(Map.entry("topics", T + "TopicCommand"),
        Map.entry("configs", "kafka.admin.ConfigCommand"), Map.entry("console-producer", T + "ConsoleProducer"),
        Map.entry("console-consumer", T + "consumer.ConsoleConsumer"), Map.entry("consumer-groups", T + "consumer.group.ConsumerGroupCommand"),
        Map.entry("groups", T + "GroupsCommand"), Map.entry("get-offsets", T + "GetOffsetShell"),
        Map.entry("delete-records", T + "DeleteRecordsCommand"), Map.entry("log-dirs", T + "LogDirsCommand"),
        Map.entry("producer-perf-test", T + "ProducerPerformance"), Map.entry("consumer-perf-test", T + "ConsumerPerformance"),
        Map.entry("verifiable-producer", T + "VerifiableProducer"), Map.entry("verifiable-consumer", T + "VerifiableConsumer"),
        Map.entry("broker-api-versions", T + "BrokerApiVersionsCommand"), Map.entry("cluster", T + "ClusterTool"));

    /** Thrown where a tool would end its process. Tools that catch it end again: the first end counts. */
    @SuppressWarnings("serial")
    static final class Exited extends Error {
        Exited() {
            super("exit", null, false, false);
        }
    }

    /** What the tool that runs has done to its process. */
    static volatile int exit; // its exit code, -1 before it ended
    static final List<Runnable> HOOKS = Collections.synchronizedList(new ArrayList<>()); // to run at the end

    static void end(int code) {
        if (exit < 0) exit = code;
        throw new Exited();
    }

    /** Takes what a tool prints until it has ended; its hooks may print, too. */
    static final class Said extends ByteArrayOutputStream {
        volatile boolean closing;

        @Override
        public synchronized void write(byte[] b, int off, int len) {
            if (exit < 0 || closing) super.write(b, off, len);
        }

        @Override
        public synchronized void write(int b) {
            if (exit < 0 || closing) super.write(b);
        }
    }

    final PrintStream out = System.out;
    final InputStream in = System.in;
    final String bootstrap, node;
    final Path dir;
    Thread reader;

    Tools(String bootstrap, String node) throws Exception {
        this.bootstrap = bootstrap;
        this.node = node;
        this.dir = Files.createTempDirectory("rhumb-tools-");
    }

    static List<String> words(String line) {
        List<String> words = new ArrayList<>();
        Matcher m = Pattern.compile("'([^']*)'|(\\S+)").matcher(line);
        while (m.find()) words.add(m.group(1) != null ? m.group(1) : m.group(2));
        return words;
    }

    String fill(String line) {
        return line.replace("$B", bootstrap).replace("$NODE", node).replace("$DIR", dir.toString());
    }

    void run(String line, String stdin) throws Exception {
        out.println("$ " + line);
        List<String> words = words(fill(line));
        switch (words.get(0)) {
            case "file" -> Files.writeString(dir.resolve(words.get(1)), stdin);
            case "show" -> out.print(Files.readString(dir.resolve(words.get(1))));
            case "join" -> join(words.get(1), words.get(2));
            case "leave" -> leave();
            default -> tool(words, stdin);
        }
        out.flush();
    }

    /** Runs a tool until it returns or exits, then what it left for the end of its process. */
    void tool(List<String> words, String stdin) throws Exception {
        Said said = new Said();
        PrintStream to = new PrintStream(said, true, StandardCharsets.UTF_8);
        exit = -1;
        HOOKS.clear();
        Thread t = new Thread(() -> {
            try {
                call(words);
            } catch (Throwable e) {
                if (exit < 0) e.printStackTrace(to);
            }
            said.closing = true;
            for (Runnable hook : List.copyOf(HOOKS)) hook.run();
            runShutdownHooks();
        }, words.get(0));
        t.setDaemon(true);
        System.setIn(new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8)));
        System.setOut(to);
        System.setErr(to);
        t.start();
        t.join(LIMIT_MS);
        System.setOut(out);
        System.setErr(out);
        out.print(said.toString(StandardCharsets.UTF_8));
        if (said.size() > 0 && said.toByteArray()[said.size() - 1] != '\n') out.println();
        if (t.isAlive()) {
            out.println("[still runs after " + LIMIT_MS + " ms]");
            t.interrupt();
        } else if (exit > 0) {
            out.println("[exit " + exit + "]");
        }
    }

    /** Runs the hooks that a tool gave to the JVM itself. The JVM is asked behind its back: it must be started with --add-opens. */
    @SuppressWarnings("unchecked")
    static void runShutdownHooks() {
        try {
            Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
            field.setAccessible(true);
            Map<Thread, Thread> hooks = (Map<Thread, Thread>) field.get(null);
            for (Thread hook : List.copyOf(hooks.keySet())) {
                Runtime.getRuntime().removeShutdownHook(hook);
                hook.start();
                hook.join(LIMIT_MS);
            }
        } catch (ReflectiveOperationException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    void call(List<String> words) throws Throwable {
        List<URL> jars = new ArrayList<>();
        for (File f : new File(System.getProperty("tools.lib")).listFiles()) jars.add(f.toURI().toURL());
        URLClassLoader loader = new URLClassLoader(jars.toArray(new URL[0]), Tools.class.getClassLoader()); // hooks still use it later
        Thread.currentThread().setContextClassLoader(loader);
        String[] args = words.subList(1, words.size()).toArray(new String[0]);
        try {
            loader.loadClass(CLASSES.get(words.get(0))).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** A consumer that stays in a group, so that tools find a member; it has everything assigned when this returns. */
    void join(String group, String topic) throws Exception {
        Properties p = new Properties();
        p.putAll(Map.of("bootstrap.servers", bootstrap, "group.id", group, "client.id", "watcher", "auto.offset.reset", "earliest",
            "enable.auto.commit", "false"));
        KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        c.subscribe(List.of(topic));
        for (long end = System.currentTimeMillis() + LIMIT_MS; c.assignment().isEmpty() && System.currentTimeMillis() < end;) {
            c.poll(Duration.ofMillis(100));
        }
        reader = new Thread(() -> {
            try (c) {
                while (!Thread.currentThread().isInterrupted()) c.poll(Duration.ofMillis(100));
            } catch (org.apache.kafka.common.errors.InterruptException e) {
                Thread.interrupted(); // it leaves the group as it closes
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    void leave() throws Exception {
        reader.interrupt();
        reader.join(LIMIT_MS);
    }

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        Tools tools = new Tools(args[1], args[2]);
        String command = null;
        StringBuilder stdin = new StringBuilder();
        List<String> lines = new ArrayList<>(Files.readAllLines(Path.of(args[0])));
        lines.add("#");
        for (String line : lines) {
            if (line.startsWith("  ")) {
                stdin.append(tools.fill(line.substring(2))).append('\n');
                continue;
            }
            if (command != null) tools.run(command, stdin.toString());
            command = line.isBlank() || line.startsWith("#") ? null : line;
            stdin.setLength(0);
        }
        Runtime.getRuntime().halt(0);
    }
}
