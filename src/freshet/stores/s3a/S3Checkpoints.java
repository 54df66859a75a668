package freshet;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Checkpoints on S3: a file is put in one request, and of two drivers that put it one gets it.
 *
 * <p>Spark writes a file aside and renames it, which S3 cannot do: it would be a copy, in many
 * requests, and who came second would win. Elsewhere than on S3 all is as Spark does it.
 */
public final class S3Checkpoints extends FileSystemBasedCheckpointFileManager {
  private final Configuration configuration;

  public S3Checkpoints(Path path, Configuration configuration) {
    super(path, configuration);
    this.configuration = configuration;
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (!(fs() instanceof S3AFileSystem)) {
      return new FileContextBasedCheckpointFileManager(path, configuration)
          .createAtomic(path, overwriteIfPossible);
    }
    try {
      return new Put(fs().create(path, overwriteIfPossible));
    } catch (IOException error) {
      throw S3Checkpoints.<RuntimeException>asItIs(error);
    }
  }

  /** Files are named by numbers; whether there is a folder of that name need not be asked. */
  @Override
  public boolean exists(Path path) {
    boolean isNumbered = path.getName().chars().allMatch(Character::isDigit);
    if (!isNumbered || !(fs() instanceof S3AFileSystem)) {
      return super.exists(path);
    }
    try {
      return ((S3AFileSystem) fs()).isFile(path);
    } catch (IOException error) {
      throw S3Checkpoints.<RuntimeException>asItIs(error);
    }
  }

  /** Scala's methods declare no exceptions, and throw them all the same. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E asItIs(Throwable error) throws E {
    throw (E) error;
  }

  /** Nothing is there before it is closed, so to cancel is to forget what was written. */
  private static final class Put extends CancellableFSDataOutputStream {
    private final FSDataOutputStream stream;

    Put(FSDataOutputStream stream) {
      super(stream);
      this.stream = stream;
    }

    @Override
    public void cancel() {
      stream.abort();
    }
  }
}
