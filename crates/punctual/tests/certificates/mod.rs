//! Certificates for tests, as `openssl` makes them, and a client that looks at them.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// An authority of our own, in a directory.
pub(crate) struct Authority {
    dir: PathBuf,
}

impl Authority {
    /// A new one, whose files go there.
    pub(crate) fn new(dir: &Path) -> Authority {
        let authority = Authority { dir: dir.to_owned() };
        authority.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {0}/ca.key -out {0}/ca.crt -days 2 \
             -subj /CN=ca -addext basicConstraints=critical,CA:TRUE",
            dir.display()
        ));
        authority
    }

    /// Its own certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Writes `name.crt` and `name.key` for those names, as in `DNS:localhost,IP:127.0.0.1`.
    pub(crate) fn issue(&self, name: &str, names: &str) {
        let at = self.dir.display();
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {at}/{name}.key -out {at}/{name}.csr -subj /CN={name}"
        ));
        let extensions = self.dir.join(format!("{name}.ext"));
        std::fs::write(&extensions, format!("subjectAltName={names}\nbasicConstraints=CA:FALSE\n")).expect("a file");
        self.openssl(&format!(
            "x509 -req -in {at}/{name}.csr -CA {at}/ca.crt -CAkey {at}/ca.key -CAcreateserial -days 2 \
             -extfile {at}/{name}.ext -out {at}/{name}.crt"
        ));
    }

    /// Writes a certificate that signs itself, as many servers have one.
    pub(crate) fn issue_itself(&self, name: &str, names: &str) {
        let at = self.dir.display();
        self.openssl(&format!(
            "req -x509 -newkey rsa:2048 -nodes -keyout {at}/{name}.key -out {at}/{name}.crt -days 2 -subj /CN={name} \
             -addext subjectAltName={names}"
        ));
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new("openssl").args(arguments.split_whitespace()).output();
        let output = output.expect("these tests need openssl: apt-get install -y openssl");
        assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A client's TLS that trusts one authority and wants a name.
#[derive(Clone)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// One that trusts that authority.
    pub(crate) fn trusting(authority: &Path, protocols: &[&[u8]]) -> Tls {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority).expect("a certificate")).expect("it can be trusted");
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("the usual ones");
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Tls(Arc::new(config))
    }

    /// Begins a handshake at once.
    pub(crate) async fn direct(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await
    }
}

impl MakeTlsConnect<tokio_postgres::Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Connect;
    type Error = std::io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Connect, std::io::Error> {
        Ok(Connect(self.clone(), domain.to_owned()))
    }
}

pub(crate) struct Connect(Tls, String);

impl TlsConnect<tokio_postgres::Socket> for Connect {
    type Stream = Encrypted;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted, std::io::Error>> + Send>>;

    fn connect(self, stream: tokio_postgres::Socket) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.1).map_err(std::io::Error::other)?;
            TlsConnector::from(self.0.0).connect(name, stream).await.map(Encrypted)
        })
    }
}

pub(crate) struct Encrypted(TlsStream<tokio_postgres::Socket>);

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl tokio_postgres::tls::TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let shown = session.peer_certificates().and_then(|chain| chain.first());
        match shown.and_then(|certificate| punctual::tls::end_point::of(certificate)) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}
