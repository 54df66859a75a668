import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.DebeziumEngine.RecordCommitter;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.IOException;
import java.io.Reader;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;

/**
 * Runs Debezium's engine with the settings of a properties file. Every batch becomes one file for
 * each table, in a folder of the table's name below `landing.path`.
 *
 * <p>A file has a hidden name until it is whole, and a transaction counts as processed when all of
 * its files have their names: after a kill at any moment every event is in a whole file or comes
 * again, or both. Single events must not count: of several with one LSN, such as the delete and the
 * create of a changed key, Debezium 3.4 does not send those again that follow a processed one
 * (debezium/dbz#1554).
 */
public final class Engine implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {
  private final Path landing;
  private final long pauseMs;
  private long seq;

  private Engine(Properties settings) {
    landing = Path.of(settings.getProperty("landing.path"));
    pauseMs = Long.parseLong(settings.getProperty("landing.pause.ms"));
    seq = Long.parseLong(settings.getProperty("landing.first.seq"));
  }

  public static void main(String[] arguments) throws IOException {
    Properties settings = new Properties();
    try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
      settings.load(file);
    }
    var format = KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class);
    DebeziumEngine.create(format)
        .using(settings)
        .notifying(new Engine(settings))
        .using((success, message, error) -> System.err.println("the engine ends: " + message))
        .build()
        .run();
  }

  @Override
  public void handleBatch(
      List<ChangeEvent<String, String>> events,
      RecordCommitter<ChangeEvent<String, String>> committer)
      throws InterruptedException {
    try {
      land(events);
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
    for (var event : events) {
      if (isEndOfTransaction(event)) {
        committer.markProcessed(event);
      }
    }
    committer.markBatchFinished();
  }

  private void land(List<ChangeEvent<String, String>> events)
      throws IOException, InterruptedException {
    String name = String.format("%010d.jsonl", seq);
    Map<Path, Writer> files = new LinkedHashMap<>();
    for (var event : events) {
      Path folder = landing.resolve(event.destination());
      if (!files.containsKey(folder)) {
        Files.createDirectories(folder);
        files.put(folder, Files.newBufferedWriter(folder.resolve("." + name)));
      }
      Writer file = files.get(folder);
      file.write(line(event));
      file.flush();
      Thread.sleep(pauseMs); // as a slow disk would, so that a kill strikes files half written
    }
    for (Writer file : files.values()) {
      file.close();
    }
    for (Path folder : files.keySet()) {
      Files.move(
          folder.resolve("." + name), folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
    }
  }

  private static boolean isEndOfTransaction(ChangeEvent<String, String> event) {
    return event.destination().endsWith(".transaction")
        && event.value().contains("\"status\":\"END\"");
  }

  /** Keys, values and headers are JSON already. */
  private String line(ChangeEvent<String, String> event) {
    List<Header<Object>> found = event.headers();
    String headers =
        found.stream()
            .map(one -> "{\"key\":\"" + one.getKey() + "\",\"value\":" + one.getValue() + "}")
            .collect(Collectors.joining(","));
    return String.format(
        "{\"seq\":%d,\"destination\":\"%s\",\"partition\":%s,\"headers\":[%s],\"key\":%s,\"value\":%s}%n",
        seq++, event.destination(), event.partition(), headers, event.key(), event.value());
  }
}
