package freshet;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.util.Progressable;

/**
 * S3A whose {@code create(path, overwrite=false)} is atomic: an object is put only if there is none.
 *
 * <p>S3A itself looks first and puts later, so two writers may both believe to be the first. Delta's
 * log and Spark's checkpoints are written by this call, and either relies on its being atomic.
 */
public final class ConditionalS3A extends S3AFileSystem {
  private static final String ONLY_IF_ABSENT = "fs.option.create.conditional.overwrite";

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    if (overwrite) {
      return super.create(path, permission, true, bufferSize, replication, blockSize, progress);
    }
    FSDataOutputStreamBuilder<?, ?> builder = createFile(path);
    builder.recursive();
    builder.overwrite(false);
    builder.must(ONLY_IF_ABSENT, true);
    return new OnlyIfAbsent((FSDataOutputStream) builder.build(), path);
  }

  /** Tells in Hadoop's own words that somebody else came first. */
  private static final class OnlyIfAbsent extends FSDataOutputStream {
    private final Path path;

    OnlyIfAbsent(FSDataOutputStream stream, Path path) throws IOException {
      super(stream, null);
      this.path = path;
    }

    @Override
    public void close() throws IOException {
      try {
        super.close();
      } catch (RemoteFileChangedException error) {
        FileAlreadyExistsException told = new FileAlreadyExistsException(path + " is there already");
        told.initCause(error);
        throw told;
      }
    }
  }
}
