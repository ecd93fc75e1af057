//! A private CA, and the certificates that it issues.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::RootCertStore;

pub struct PrivateCa(CertifiedIssuer<'static, KeyPair>);

/// The files of a certificate and its key.
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The certificate in DER.
    pub der: Vec<u8>,
}

impl PrivateCa {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "A private CA");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes its own certificate.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("ca.pem");
        fs::write(&path, self.0.pem()).unwrap();
        path
    }

    /// Writes a new pair for this name, and for the address of this machine.
    pub fn issue(&self, folder: &Path, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let issued = params.signed_by(&key, &self.0).unwrap();
        let pair =
            Pair { certificate: folder.join("cert.pem"), key: folder.join("key.pem"), der: issued.der().to_vec() };
        fs::write(&pair.certificate, issued.pem()).unwrap();
        fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }

    /// A store that trusts this CA alone.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }
}
