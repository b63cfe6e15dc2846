//! The certificate that the gateway shows its clients, and the key to it.

use std::fmt;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::{end_point, provider};
use crate::auth::private::{self, Exposed, Keep, Unopened};

/// What a client says it speaks that begins with TLS at once, as of Postgres 17.
pub const PROTOCOL: &[u8] = b"postgresql";

/// What clients of the front door may or must do.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DoorTls {
    /// No client is encrypted.
    #[default]
    Off,
    /// Those that ask for it are.
    Allowed(Identity),
    /// All are; others are turned away, except for cancel requests.
    Required(Identity),
}

impl DoorTls {
    /// As it is called in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            DoorTls::Off => "off",
            DoorTls::Allowed(_) => "allowed",
            DoorTls::Required(_) => "required",
        }
    }

    /// What is shown to clients that ask for encryption.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            DoorTls::Off => None,
            DoorTls::Allowed(identity) | DoorTls::Required(identity) => Some(identity),
        }
    }
}

/// A certificate with its chain and its key.
#[derive(Clone)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    config: Arc<ServerConfig>,
    end_point: Option<Arc<[u8]>>,
}

/// Two are the same if they show the same: a certificate has one key.
impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        self.chain == other.chain
    }
}

/// Nothing of its key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates)", self.chain.len())
    }
}

/// A certificate or a key that cannot be used.
#[derive(Debug)]
pub enum IdentityError {
    /// The file with certificates.
    Certificate(PathBuf, pem::Error),
    /// The file with the key.
    Key(PathBuf, pem::Error),
    /// The file with the key, which others can have.
    Exposed(PathBuf, Exposed),
    /// They are read, and make no sense together or by themselves.
    Unfit(rustls::Error),
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentityError::Certificate(path, cause) | IdentityError::Key(path, cause) => {
                write!(f, "cannot read {}: {}", path.display(), pem_text(cause))
            }
            IdentityError::Exposed(path, exposed) => write!(f, "{}: {exposed}", path.display()),
            IdentityError::Unfit(rustls::Error::InconsistentKeys(_)) => {
                write!(f, "the key is not that of the certificate")
            }
            IdentityError::Unfit(cause) => write!(f, "certificate and key cannot be used: {cause}"),
        }
    }
}

impl std::error::Error for IdentityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            IdentityError::Certificate(_, cause) | IdentityError::Key(_, cause) => Some(cause),
            IdentityError::Exposed(_, exposed) => Some(exposed),
            IdentityError::Unfit(cause) => Some(cause),
        }
    }
}

/// What is wrong with a PEM file.
pub(super) fn pem_text(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(cause) => cause.to_string(),
        pem::Error::NoItemsFound => "there is no such thing in it, in PEM (-----BEGIN …-----)".to_owned(),
        other => other.to_string(),
    }
}

/// The certificates of a PEM file; at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let all = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    if all.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(all) }
}

impl Identity {
    /// Reads PEM files: the gateway's certificate and those that lead to an authority, and its key.
    ///
    /// # Errors
    /// If they cannot be read, others can read the key, or they do not fit.
    pub fn read(certificate: &Path, key: &Path) -> Result<Identity, IdentityError> {
        let chain =
            certificates(certificate).map_err(|cause| IdentityError::Certificate(certificate.to_owned(), cause))?;
        let opened = private::open(key, Keep::Secrets).map_err(|unopened| match unopened {
            Unopened::Io(cause) => IdentityError::Key(key.to_owned(), pem::Error::Io(cause)),
            Unopened::Exposed(exposed) => IdentityError::Exposed(key.to_owned(), exposed),
        })?;
        let key = PrivateKeyDer::from_pem_reader(BufReader::new(opened.file))
            .map_err(|cause| IdentityError::Key(key.to_owned(), cause))?;
        let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain.clone(), key));
        let mut config = config.map_err(IdentityError::Unfit)?;
        // A client that names other protocols and not this one is not ours.
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // As in Postgres: sessions last, so that taking one up again saves nothing.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        let end_point = chain.first().and_then(|leaf| end_point::of(leaf)).map(Arc::from);
        Ok(Identity { chain, config: Arc::new(config), end_point })
    }

    /// What proofs of identity are bound to, of clients to which this was shown.
    pub fn end_point(&self) -> Option<Arc<[u8]>> {
        self.end_point.clone()
    }

    /// Encrypts a connection that a client has begun. `direct`: it began with that, and has to say what it speaks.
    ///
    /// # Errors
    /// If the handshake fails.
    pub async fn accept(&self, stream: TcpStream, direct: bool) -> io::Result<TlsStream<TcpStream>> {
        let stream = TlsAcceptor::from(Arc::clone(&self.config)).accept(stream).await?;
        if direct && stream.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it does not say that it speaks the Postgres protocol",
            ));
        }
        Ok(stream)
    }
}
