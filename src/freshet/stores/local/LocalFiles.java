package freshet;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, checksums included, that start no process.
 *
 * <p>Without its native library, which Spark does not bring, Hadoop runs {@code chmod} for each file
 * that it makes, and {@code readlink} twice for each that it renames. A fork of a JVM takes
 * milliseconds, and a batch of a stream does a dozen of these. The JDK asks the kernel itself.
 */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new WithoutForks());
  }

  static final class WithoutForks extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      if (permission.getStickyBit()) { // of which the JDK knows nothing
        super.setPermission(path, permission);
        return;
      }
      String symbols = permission.toString();
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(symbols));
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      boolean isLink = Files.isSymbolicLink(pathToFile(path).toPath());
      return isLink ? super.getFileLinkStatus(path) : getFileStatus(path);
    }
  }
}
