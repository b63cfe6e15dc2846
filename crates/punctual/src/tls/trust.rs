//! What makes a cluster trustworthy: its certificate, as far as it is looked at.
//!
//! | `tls` | encrypted | the certificate |
//! |---|---|---|
//! | `off` | no | |
//! | `preferred` | if the cluster can | not looked at |
//! | `required` | yes | not looked at |
//! | `verify-ca` | yes | leads to an authority of `tls_ca` |
//! | `verify-full` | yes | the same, and is for the host that is connected to |
//!
//! The words are libpq's, and mean the same. A certificate that signs itself and stands in `tls_ca` is one that leads
//! there: many servers have one, though strictly one that may sign others may not be a server's.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::provider;
use super::serving::{PROTOCOL, certificates, pem_text};

/// Whether connections to a cluster are encrypted.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClusterTls {
    /// Never.
    #[default]
    Off,
    /// If the cluster can.
    Preferred(Connector),
    /// Always; one that cannot is not connected to.
    Required(Connector),
}

/// How far a certificate is looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum Trust {
    /// Not at all.
    Anyone,
    /// It leads to one of these authorities.
    Led(Authorities),
    /// The same, and it is for the host.
    Named(Authorities),
}

/// Authorities that are trusted; at least one.
#[derive(Clone, PartialEq)]
pub struct Authorities(Vec<CertificateDer<'static>>);

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({})", self.0.len())
    }
}

/// A file of authorities that cannot be used.
#[derive(Debug)]
pub struct AuthoritiesError {
    path: PathBuf,
    cause: pem::Error,
}

impl fmt::Display for AuthoritiesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}: {}", self.path.display(), pem_text(&self.cause))
    }
}

impl std::error::Error for AuthoritiesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl Authorities {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// If it cannot be read, or there is none in it.
    pub fn read(path: &Path) -> Result<Authorities, AuthoritiesError> {
        certificates(path).map(Authorities).map_err(|cause| AuthoritiesError { path: path.to_owned(), cause })
    }
}

/// Begins encrypted connections.
#[derive(Clone)]
pub struct Connector {
    trust: Trust,
    config: Arc<ClientConfig>,
}

impl PartialEq for Connector {
    fn eq(&self, other: &Connector) -> bool {
        self.trust == other.trust
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({:?})", self.trust)
    }
}

impl Connector {
    /// One that trusts so far.
    ///
    /// # Errors
    /// If none of the authorities can be trusted.
    pub fn new(trust: Trust) -> Result<Connector, rustls::Error> {
        let look = Look { chain: chain(&trust)?, trust: trust.clone() };
        let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let config = config.dangerous().with_custom_certificate_verifier(Arc::new(look));
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Connector { trust, config: Arc::new(config) })
    }

    /// True if no certificate is looked at.
    pub fn trusts_anyone(&self) -> bool {
        self.trust == Trust::Anyone
    }

    /// Encrypts a connection to that host.
    ///
    /// # Errors
    /// If the handshake fails, or the certificate is not trusted.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|cause| io::Error::new(io::ErrorKind::InvalidInput, format!("{host:?}: {cause}")))?;
        TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await
    }
}

/// Who looks whether a certificate leads to an authority; None if nobody does.
fn chain(trust: &Trust) -> Result<Option<Arc<WebPkiServerVerifier>>, rustls::Error> {
    let (Trust::Led(Authorities(trusted)) | Trust::Named(Authorities(trusted))) = trust else { return Ok(None) };
    let mut roots = RootCertStore::empty();
    for authority in trusted {
        roots.add(authority.clone())?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    verifier.map(Some).map_err(|cause| rustls::Error::General(cause.to_string()))
}

/// Looks at certificates, as far as is wanted.
#[derive(Debug)]
struct Look {
    trust: Trust,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Look {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let (Some(chain), Trust::Led(trusted) | Trust::Named(trusted)) = (&self.chain, &self.trust) else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last, after all else was found right.
            Err(error) if is_about_the_name(&error) && matches!(self.trust, Trust::Led(_)) => {}
            Err(error) if signs_itself(&error) && trusted.0.iter().any(|known| known == end_entity) => {
                if let Trust::Named(_) = self.trust {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                }
            }
            other => return other,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn is_about_the_name(error: &rustls::Error) -> bool {
    use CertificateError::{NotValidForName, NotValidForNameContext};
    matches!(error, rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
}

/// True if nothing else is wrong but that the certificate may sign others, and was not meant to be a server's. That is found
/// after it is known to be valid by its dates.
fn signs_itself(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(other)) = error else { return false };
    // The library that says so is rustls's own, and not ours to name.
    format!("{:?}", other.0) == "CaUsedAsEndEntity"
}
