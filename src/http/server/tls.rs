//! The server's certificate and its key. They are read again when their files change; a pair that cannot be used is not
//! taken.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// The names of protocols in ALPN.
pub const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// The first file has no certificate.
    #[error("{0} has no certificate in PEM: it begins with a line -----BEGIN CERTIFICATE-----")]
    NoCertificate(PathBuf),
    /// The second file has no key.
    #[error("{0} has no private key in PEM without a password: it begins with a line -----BEGIN PRIVATE KEY-----")]
    NoKey(PathBuf),
    /// The certificate is malformed, or the key is of another one.
    #[error("the first certificate of {0} and the key of {1} cannot be used together: {2}")]
    Unusable(PathBuf, PathBuf, rustls::Error),
    /// The library refuses the settings.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// Serves by TLS.
pub struct Tls {
    files: PairFiles,
    seen: Mutex<SeenPair>,
    current: Arc<CurrentPair>,
    acceptor: TlsAcceptor,
}

/// The files of a pair: the certificate, followed by those of CAs between it and the root, and its key.
#[derive(Clone, Debug)]
struct PairFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// What changes when a file is replaced or written: device, inode, size, seconds and nanoseconds of the last change of
/// its content, and of its inode: the latter cannot be set back. None if there is no file.
type FileStamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;
type PairStamp = [FileStamp; 2];

/// The files when they were looked at last.
#[derive(Debug)]
struct SeenPair {
    /// As they were when they were read last, also if they could not be used.
    stamp: PairStamp,
    /// The last error, which is logged once.
    error: Option<String>,
}

/// The pair for new connections.
#[derive(Debug)]
struct CurrentPair(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentPair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Tls {
    /// Reads a certificate and its key, both in PEM.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let files = PairFiles { certificate: certificate.to_owned(), key: key.to_owned() };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let seen = SeenPair { stamp: files.stamp(), error: None };
        let current = Arc::new(CurrentPair(RwLock::new(Arc::new(files.read(&provider)?))));
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.map_err(TlsError::Setup)?.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        // The order of the provider, the strongest first, and not that of the client.
        config.ignore_client_order = true;
        Ok(Self { files, seen: Mutex::new(seen), current, acceptor: Arc::new(config).into() })
    }

    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    /// Reads the files again whenever they change.
    pub(super) async fn follow(self: Arc<Self>) {
        loop {
            sleep(INTERVAL).await;
            let tls = self.clone();
            if let Err(error) = tokio::task::spawn_blocking(move || tls.refresh()).await {
                tracing::error!(%error, "the files of the certificate were not looked at");
            }
        }
    }

    /// Takes the pair of the files, if they have changed and it can be used.
    fn refresh(&self) {
        // Before the files are read: a change after that is seen the next time.
        let stamp = self.files.stamp();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.stamp == stamp {
            return;
        }
        let read = self.files.read(self.acceptor.config().crypto_provider());
        // What could not be read is tried again.
        if !matches!(read, Err(TlsError::Unreadable(..))) {
            seen.stamp = stamp;
        }
        match read {
            Ok(pair) => {
                seen.error = None;
                *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                tracing::info!("the certificate was read again: new connections get it");
            }
            Err(error) => {
                let text = error.to_string();
                if seen.error.as_ref() != Some(&text) {
                    tracing::error!(%error, "the certificate is not taken: the one before is still used");
                    seen.error = Some(text);
                }
            }
        }
    }
}

impl PairFiles {
    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let Self { certificate, key } = self;
        let bytes = |path: &PathBuf| fs::read(path).map_err(|error| TlsError::Unreadable(path.clone(), error));
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(certificate)?).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| TlsError::NoCertificate(certificate.clone()))?;
        let private = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|_| TlsError::NoKey(key.clone()))?;
        warn_if_others_read(key);
        CertifiedKey::from_der(chain, private, provider)
            .map_err(|error| TlsError::Unusable(certificate.clone(), key.clone(), error))
    }

    fn stamp(&self) -> PairStamp {
        [&self.certificate, &self.key].map(|path| {
            let file = fs::metadata(path).ok()?;
            let content = (file.mtime(), file.mtime_nsec());
            Some((file.dev(), file.ino(), file.size(), content.0, content.1, file.ctime(), file.ctime_nsec()))
        })
    }
}

fn warn_if_others_read(key: &Path) {
    if fs::metadata(key).is_ok_and(|file| file.mode() & 0o077 != 0) {
        tracing::warn!(path = %key.display(), "other users can read the key of the certificate: chmod 600 it");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::SystemTime;

    use super::*;

    /// Writes a new pair. Returns the certificate's bytes.
    fn write_pair(folder: &Path) -> Vec<u8> {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.join("cert.pem"), pair.cert.pem()).unwrap();
        fs::write(folder.join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
        pair.cert.der().to_vec()
    }

    fn used(tls: &Tls) -> Vec<u8> {
        tls.current.0.read().unwrap().cert[0].to_vec()
    }

    #[test]
    fn a_changed_pair_is_taken_and_a_bad_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let first = write_pair(folder.path());
        let tls = Tls::read(&certificate, &key).unwrap();
        assert_eq!(used(&tls), first);
        let old_key = fs::read(&key).unwrap();
        let second = write_pair(folder.path());
        tls.refresh();
        assert_eq!(used(&tls), second);
        let [good_certificate, good_key] = [&certificate, &key].map(|path| fs::read(path).unwrap());
        for (bad_certificate, bad_key) in [
            (good_certificate.as_slice(), old_key.as_slice()),
            (&good_certificate[..good_certificate.len() / 2], &good_key),
            (&good_certificate, &good_key[..good_key.len() / 2]),
            (b"", &good_key),
            (&good_certificate, b""),
            (&good_key, &good_certificate),
        ] {
            fs::write(&certificate, bad_certificate).unwrap();
            fs::write(&key, bad_key).unwrap();
            assert!(Tls::read(&certificate, &key).is_err());
            tls.refresh();
            assert_eq!(used(&tls), second);
        }
        fs::remove_file(&key).unwrap();
        tls.refresh();
        assert_eq!(used(&tls), second);
        let third = write_pair(folder.path());
        tls.refresh();
        assert_eq!(used(&tls), third);
    }

    /// Writes a new pair into files of the same size and time as before. Returns the certificate's bytes.
    fn write_alike(folder: &Path, at: SystemTime) -> Vec<u8> {
        let certificate = write_pair(folder);
        for name in ["cert.pem", "key.pem"] {
            let mut file = fs::OpenOptions::new().append(true).open(folder.join(name)).unwrap();
            let missing = 4096 - usize::try_from(file.metadata().unwrap().len()).unwrap();
            file.write_all("\n".repeat(missing).as_bytes()).unwrap();
            file.set_modified(at).unwrap();
        }
        certificate
    }

    #[test]
    fn a_pair_of_the_same_size_and_time_is_taken_and_a_failed_read_is_tried_again() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let first = write_alike(folder.path(), at);
        let tls = Tls::read(&certificate, &key).unwrap();
        assert_eq!(used(&tls), first);
        // A change of an inode may have the time of the tick before.
        std::thread::sleep(Duration::from_millis(20));
        let second = write_alike(folder.path(), at);
        tls.refresh();
        assert_eq!(used(&tls), second);
        let third = write_alike(other.path(), at);
        for name in ["cert.pem", "key.pem"] {
            fs::rename(other.path().join(name), folder.path().join(name)).unwrap();
        }
        tls.refresh();
        assert_eq!(used(&tls), third);
        fs::remove_file(&key).unwrap();
        fs::create_dir(&key).unwrap();
        tls.refresh();
        assert_ne!(tls.seen.lock().unwrap().stamp, tls.files.stamp(), "it is read again");
        assert!(tls.seen.lock().unwrap().error.is_some());
        assert_eq!(used(&tls), third);
        fs::remove_dir(&key).unwrap();
        let fourth = write_pair(folder.path());
        tls.refresh();
        assert_eq!(used(&tls), fourth);
        assert_eq!(tls.seen.lock().unwrap().error, None);
    }
}
