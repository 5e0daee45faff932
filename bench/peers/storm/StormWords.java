import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Word count on Storm's LocalCluster with an acker, the bolts in Java or, by the multilang protocol, in Python.
 *
 * <p>Arguments: the file of sentences, how many of them to count, the folder for marks, tasks of each bolt, and for bolts
 * in Python the interpreter. One sentence goes first; the clock starts when it is acked, with all processes up.
 */
public final class StormWords {
    private static final long NANO = 1_000_000_000L;
    private static final int PENDING = 1_000;

    private StormWords() {}

    public static void main(String[] arguments) throws Exception {
        String python = arguments.length > 4 ? arguments[4] : null;
        int tasks = Integer.parseInt(arguments[3]);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("sentences", new Sentences(arguments[0], Integer.parseInt(arguments[1]), arguments[2]));
        BoltDeclarer split = python == null
                ? builder.setBolt("split", new Split(), tasks)
                : builder.setBolt("split", new Shell(python, "split", new Fields("word")), tasks);
        BoltDeclarer count = python == null
                ? builder.setBolt("count", new Count(arguments[2]), tasks)
                : builder.setBolt("count", new Shell(python, "count", new Fields()), tasks);
        split.shuffleGrouping("sentences");
        count.fieldsGrouping("split", new Fields("word"));
        try (LocalCluster cluster = new LocalCluster()) {
            cluster.submitTopology("words", configuration(python == null), builder.createTopology());
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    /** What its page on performance advises for throughput: batches between executors, few ackers, bounded pending. */
    private static Config configuration(boolean isJava) {
        Config configuration = new Config();
        configuration.setNumAckers(1);
        configuration.setMaxSpoutPending(PENDING);
        // A ShellBolt emits from a thread of its own, whose part of a batch nothing flushes: no batches with it.
        configuration.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, isJava ? 1_000 : 1);
        configuration.put(Config.TOPOLOGY_BATCH_FLUSH_INTERVAL_MILLIS, 5);
        configuration.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        configuration.put(Config.TOPOLOGY_STATS_SAMPLE_RATE, 0.001);
        return configuration;
    }

    /** Emits sentences with message ids: one, and all others from when that is acked. */
    public static final class Sentences extends BaseRichSpout {
        private static final String WARM_UP = "warm up";
        private final String file;
        private final int number;
        private final String marks;
        private transient List<String> lines;
        private transient SpoutOutputCollector collector;
        private int next = -1;
        private boolean isWarm;

        Sentences(String file, int number, String marks) {
            this.file = file;
            this.number = number;
            this.marks = marks;
        }

        @Override
        public void open(Map<String, Object> configuration, TopologyContext context, SpoutOutputCollector to) {
            collector = to;
            try {
                lines = Files.readAllLines(Path.of(file));
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            leave(marks, "counted-warm-up", -WARM_UP.split(" ").length, 0);
        }

        @Override
        public void nextTuple() {
            if (next < 0) {
                next = 0;
                emit(-1);
            } else if (isWarm && next < number) {
                if (next == 0) {
                    leave(marks, "first-sentence", 0, System.nanoTime());
                }
                emit(next++);
            }
        }

        private void emit(int sentence) {
            collector.emit(new Values(sentence < 0 ? WARM_UP : lines.get(sentence % lines.size())), sentence);
        }

        @Override
        public void ack(Object id) {
            isWarm = true;
        }

        @Override
        public void fail(Object id) {
            emit((Integer) id);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("sentence"));
        }
    }

    /** A tuple for each word. */
    public static final class Split extends BaseBasicBolt {
        @Override
        public void execute(Tuple input, BasicOutputCollector collector) {
            for (String word : input.getString(0).split(" ")) {
                collector.emit(new Values(word));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    /** The running count of each word, and a thread that marks how many words that were. */
    public static final class Count extends BaseBasicBolt {
        private final String marks;
        private transient Map<String, Long> counts;
        private transient volatile long words;
        private transient volatile long atNanos;

        Count(String marks) {
            this.marks = marks;
        }

        @Override
        public void prepare(Map<String, Object> configuration, TopologyContext context) {
            counts = new HashMap<>();
            Thread teller = new Thread(() -> tell("counted-" + context.getThisTaskId()));
            teller.setDaemon(true);
            teller.start();
        }

        @Override
        public void execute(Tuple input, BasicOutputCollector collector) {
            counts.merge(input.getString(0), 1L, Long::sum);
            atNanos = System.nanoTime();
            words++;
        }

        private void tell(String name) {
            for (long told = 0; !Thread.currentThread().isInterrupted(); LockSupport.parkNanos(NANO / 20)) {
                long now = words;
                if (now != told) {
                    leave(marks, name, now, atNanos);
                    told = now;
                }
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }

    /** Leaves a mark as programs/marks.py does. */
    private static void leave(String marks, String name, long words, long atNanos) {
        String facts = String.format(Locale.ROOT, "{\"words\": %d, \"at_s\": %.6f}", words, (double) atNanos / NANO);
        try {
            Path partial = Path.of(marks, "." + name);
            Files.writeString(partial, facts);
            Files.move(partial, Path.of(marks, name), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A bolt in Python. */
    public static final class Shell extends ShellBolt implements IRichBolt {
        private final Fields fields;

        Shell(String python, String bolt, Fields fields) {
            super(python, "-m", "bench.peers.programs.storm_bolts", bolt);
            this.fields = fields;
            changeChildCWD(false);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            if (fields.size() > 0) {
                declarer.declare(fields);
            }
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }
    }
}
