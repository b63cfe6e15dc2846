//! Which certificates of clusters are trusted, with real ones and real handshakes.

mod certificates;

use std::net::SocketAddr;
use std::path::Path;

use certificates::Authority;
use punctual::tls::serving::Identity;
use punctual::tls::trust::{Authorities, Connector, Trust};
use tokio::net::{TcpListener, TcpStream};

/// Someone who shows the certificate of that name to all who come.
async fn show(dir: &Path, name: &str) -> SocketAddr {
    let file = |kind: &str| dir.join(format!("{name}.{kind}"));
    let identity = Identity::read(&file("crt"), &file("key")).expect("they belong together");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = identity.accept(stream, false).await;
        }
    });
    address
}

/// What is said against a connection to that host; empty if nothing is.
async fn said(trust: Trust, host: &str, at: SocketAddr) -> String {
    let connector = Connector::new(trust).expect("it can be trusted");
    let stream = TcpStream::connect(at).await.expect("someone listens");
    connector.connect(host, stream).await.map_or_else(|error| error.to_string(), |_| String::new())
}

#[tokio::test]
async fn a_certificate_is_looked_at_as_far_as_is_wanted() {
    let (ours, theirs) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (authority, stranger) = (Authority::new(ours.path()), Authority::new(theirs.path()));
    authority.issue("server", "DNS:db.example.org,IP:127.0.0.1");
    let at = show(ours.path(), "server").await;
    let of = |authority: &Authority| Authorities::read(&authority.certificate()).expect("a certificate");
    let (known, unknown) = (of(&authority), of(&stranger));
    for host in ["db.example.org", "127.0.0.1", "elsewhere", "::1"] {
        assert_eq!(said(Trust::Anyone, host, at).await, "");
        assert_eq!(said(Trust::Led(known.clone()), host, at).await, "");
        assert!(said(Trust::Led(unknown.clone()), host, at).await.contains("invalid peer certificate"));
        assert!(said(Trust::Named(unknown.clone()), host, at).await.contains("invalid peer certificate"));
    }
    for host in ["db.example.org", "127.0.0.1"] {
        assert_eq!(said(Trust::Named(known.clone()), host, at).await, "");
    }
    for host in ["elsewhere", "::1"] {
        let said = said(Trust::Named(known.clone()), host, at).await;
        assert!(said.contains("not valid for name"), "{said}");
    }
    assert!(said(Trust::Anyone, "not a host", at).await.contains("not a host"));
}

#[tokio::test]
async fn a_certificate_that_signs_itself_is_trusted_where_it_is_known_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new(dir.path());
    authority.issue_itself("server", "DNS:db.example.org");
    authority.issue_itself("other", "DNS:db.example.org");
    let at = show(dir.path(), "server").await;
    let of = |name: &str| Authorities::read(&dir.path().join(name)).expect("a certificate");
    assert_eq!(said(Trust::Led(of("server.crt")), "elsewhere", at).await, "");
    assert_eq!(said(Trust::Named(of("server.crt")), "db.example.org", at).await, "");
    let named = said(Trust::Named(of("server.crt")), "elsewhere", at).await;
    assert!(named.contains("not valid for name"), "{named}");
    assert_ne!(said(Trust::Led(of("other.crt")), "db.example.org", at).await, "");
    assert_ne!(said(Trust::Led(of("ca.crt")), "db.example.org", at).await, "");
}

#[test]
fn what_is_no_certificate_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ca.pem");
    assert!(Authorities::read(&path).expect_err("it is not there").to_string().contains("No such file"));
    for text in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&path, text).expect("a file");
        let said = Authorities::read(&path).expect_err(text).to_string();
        assert!(said.starts_with(&format!("cannot read {}: ", path.display())), "{said}");
    }
}
