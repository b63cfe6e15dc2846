//! Where clients are, and the networks that match rules name: `10.0.0.0/8`, `2001:db8::/32`, one address, `local`.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Where a client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Client {
    /// Nobody knows: no network holds it.
    #[default]
    Unknown,
    /// On this machine, at a Unix socket.
    Local,
    /// At this address.
    Ip(IpAddr),
}

/// A part of the world that clients come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Network {
    /// Unix sockets.
    Local,
    /// The addresses that begin with the first `bits` of this one; what follows is zero.
    Ip {
        /// The address.
        address: IpAddr,
        /// How many of its bits count.
        bits: u8,
    },
}

/// Why a text is no network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotANetwork {
    /// It is no address.
    Address,
    /// What follows the slash is no number of bits that the address has.
    Bits,
    /// Bits are set that do not count.
    Beyond,
}

impl fmt::Display for NotANetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotANetwork::Address => "is neither an address nor `local`",
            NotANetwork::Bits => "has no number of bits after its slash that such an address has",
            NotANetwork::Beyond => "has bits beyond those that count",
        })
    }
}

impl Client {
    /// At that address. An IPv4 address that is written as an IPv6 one is the IPv4 address.
    pub fn at(address: IpAddr) -> Client {
        Client::Ip(address.to_canonical())
    }

    /// Reads an address or `local`; None if it is neither.
    pub fn read(text: &str) -> Option<Client> {
        if text == "local" { Some(Client::Local) } else { text.parse().ok().map(Client::at) }
    }

    /// Every network that holds it has a start of this as its path.
    pub(super) fn path(self) -> Path {
        match self {
            Client::Unknown => Path { bytes: [0; LONGEST], len: 0 },
            Client::Local => Network::Local.path(),
            Client::Ip(address) => path(address, u8::MAX),
        }
    }
}

impl Network {
    /// Reads an address, with or without a slash and the number of bits that count, or `local`.
    ///
    /// # Errors
    /// If it is none of these, or says more than counts.
    pub fn read(text: &str) -> Result<Network, NotANetwork> {
        if text == "local" {
            return Ok(Network::Local);
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork::Address)?;
        let width = width(address);
        let bits = match bits {
            None => width,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= width).ok_or(NotANetwork::Bits)?,
        };
        if (bits..width).any(|at| bit(address, at)) {
            return Err(NotANetwork::Beyond);
        }
        Ok(match address.to_canonical() {
            // ::ffff:10.0.0.0/104 is 10.0.0.0/8.
            IpAddr::V4(inner) if width == 128 && bits >= 96 => Network::Ip { address: inner.into(), bits: bits - 96 },
            _ => Network::Ip { address, bits },
        })
    }

    /// True if the client is in it.
    pub fn holds(self, client: Client) -> bool {
        match (self, client) {
            (Network::Local, Client::Local) => true,
            (Network::Ip { address, bits }, Client::Ip(found)) => {
                width(address) == width(found) && (0..bits).all(|at| bit(address, at) == bit(found, at))
            }
            _ => false,
        }
    }

    /// Its bits, after one byte for what it is.
    pub(super) fn path(self) -> Path {
        match self {
            Network::Local => Path { bytes: [2; LONGEST], len: 1 },
            Network::Ip { address, bits } => path(address, bits),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::Local => f.write_str("local"),
            Network::Ip { address, bits } if *bits == width(*address) => address.fmt(f),
            Network::Ip { address, bits } => write!(f, "{address}/{bits}"),
        }
    }
}

/// A place in the tree of all networks: a byte for what it is, and one for each bit.
#[derive(Clone, Copy)]
pub(super) struct Path {
    bytes: [u8; LONGEST],
    len: usize,
}

const LONGEST: usize = 129;

impl Path {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn path(address: IpAddr, bits: u8) -> Path {
    let bits = usize::from(bits.min(width(address)));
    let (kind, value) = match address {
        IpAddr::V4(address) => (4, u128::from(address.to_bits()) << 96),
        IpAddr::V6(address) => (6, address.to_bits()),
    };
    let mut bytes = [kind; LONGEST];
    for (at, byte) in bytes[1..=bits].iter_mut().enumerate() {
        *byte = (value >> (127 - at)) as u8 & 1;
    }
    Path { bytes, len: bits + 1 }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// One bit of an address, counted from the most significant one.
fn bit(address: IpAddr, at: u8) -> bool {
    let byte = usize::from(at / 8);
    let octet = match address {
        IpAddr::V4(address) => address.octets()[byte],
        IpAddr::V6(address) => address.octets()[byte],
    };
    octet & (0x80 >> (at % 8)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, client: &str) -> bool {
        let network = Network::read(network).expect("a network");
        network.holds(Client::read(client).expect("a client"))
    }

    #[test]
    fn a_network_holds_the_addresses_that_begin_as_it_does() {
        assert!(holds("10.0.0.0/8", "10.200.3.4") && !holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.2"));
        assert!(holds("192.168.4.0/23", "192.168.5.255") && !holds("192.168.4.0/23", "192.168.6.0"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("2001:db8::/33", "2001:db8:7fff::1") && !holds("2001:db8::/33", "2001:db8:8000::1"));
        assert!(holds("::/0", "::1") && !holds("::/0", "1.2.3.4"));
        assert!(holds("local", "local") && !holds("local", "127.0.0.1") && !holds("0.0.0.0/0", "local"));
        assert!(!Network::Local.holds(Client::Unknown));
    }

    #[test]
    fn an_ipv4_address_in_an_ipv6_one_is_the_ipv4_address() {
        assert!(holds("10.0.0.0/8", "::ffff:10.2.3.4") && holds("::ffff:10.0.0.0/104", "10.2.3.4"));
        assert_eq!(Network::read("::ffff:10.0.0.0/104").map(|network| network.to_string()), Ok("10.0.0.0/8".into()));
    }

    #[test]
    fn what_is_no_network_is_told_from_what_says_too_much() {
        for (text, wrong) in [
            ("10.0.0.1/8", NotANetwork::Beyond),
            ("2001:db8::1/64", NotANetwork::Beyond),
            ("10.0.0.0/33", NotANetwork::Bits),
            ("10.0.0.0/", NotANetwork::Bits),
            ("10.0.0.0/-1", NotANetwork::Bits),
            ("10.0.0/8", NotANetwork::Address),
            ("example.org", NotANetwork::Address),
            ("", NotANetwork::Address),
        ] {
            assert_eq!(Network::read(text), Err(wrong), "{text}");
        }
        for text in ["10.0.0.0/8", "10.1.2.3", "2001:db8::/32", "::1", "local", "0.0.0.0/0"] {
            assert_eq!(Network::read(text).map(|network| network.to_string()), Ok(text.to_owned()));
        }
    }
}
