package freshet;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsConstants;

/** {@link LocalFiles} for Hadoop's other interface, by which Spark writes its checkpoints. */
public final class LocalFilesContext extends ChecksumFs {
  public LocalFilesContext(URI uri, Configuration configuration)
      throws IOException, URISyntaxException {
    super(new Raw(configuration));
  }

  private static final class Raw extends DelegateToFileSystem {
    Raw(Configuration configuration) throws IOException, URISyntaxException {
      super(
          FsConstants.LOCAL_FS_URI,
          new LocalFiles.WithoutForks(),
          configuration,
          FsConstants.LOCAL_FS_URI.getScheme(),
          false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1; // there is none
    }

    @Override
    public boolean isValidName(String name) {
      return true; // the file system knows
    }
  }
}
