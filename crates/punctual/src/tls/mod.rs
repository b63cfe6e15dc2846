//! Encrypted connections: the gateway's own certificate, and what it makes of those of clusters.
//!
//! rustls with ring, TLS 1.2 and 1.3, nothing to choose. What is here is read from files before a gateway starts or a
//! reload changes anything; the sockets themselves are in [`relay`](crate::relay).

pub mod end_point;
pub mod serving;
pub mod trust;

use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

/// The one provider of cryptography.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
