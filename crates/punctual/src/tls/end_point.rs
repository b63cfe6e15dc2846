//! What stands for a certificate when a proof of identity is bound to it: `tls-server-end-point`, RFC 5929, section 4.1.
//!
//! The hash of the whole certificate, by the hash function of its own signature; SHA-256 where that is MD5 or SHA-1.
//! Where the signature has no hash function of its own (Ed25519), or names it elsewhere (RSA-PSS), it is not defined, and
//! nothing is bound.
//!
//! ```text
//!   Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OBJECT IDENTIFIER, … }, … }
//! ```

use ring::digest::{self, SHA256, SHA384, SHA512};

/// Signature algorithms, as DER has their identifiers, and what is hashed with.
const ALGORITHMS: [(&[u8], &digest::Algorithm); 9] = [
    // PKCS #1, 1.2.840.113549.1.1: with MD5, SHA-1, SHA-256, SHA-384, SHA-512.
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04], &SHA256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05], &SHA256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], &SHA256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], &SHA384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], &SHA512),
    // ECDSA, 1.2.840.10045.4: with SHA-1, SHA-256, SHA-384, SHA-512.
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01], &SHA256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], &SHA256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], &SHA384),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04], &SHA512),
];

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// What a proof is bound to, of a certificate in DER; None if that is not defined for it.
pub fn of(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut whole = certificate;
    let mut fields = element(&mut whole, SEQUENCE)?;
    element(&mut fields, SEQUENCE)?;
    let mut signature = element(&mut fields, SEQUENCE)?;
    let identifier = element(&mut signature, OBJECT_IDENTIFIER)?;
    let (_, hash) = ALGORITHMS.iter().find(|(known, _)| *known == identifier)?;
    Some(digest::digest(hash, certificate).as_ref().to_vec())
}

/// Takes the content of the next element, which must be of that tag.
fn element<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let [found, length, rest @ ..] = *bytes else { return None };
    if *found != tag {
        return None;
    }
    let (length, rest) = match *length {
        short @ ..=0x7f => (usize::from(short), rest),
        // A certificate has fewer than 2^32 bytes.
        long @ 0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate with nothing in it but that signature algorithm.
    fn certificate(identifier: &[u8]) -> Vec<u8> {
        let wrap = |tag: u8, content: &[u8]| [&[tag, 0x82, 0, content.len() as u8], content].concat();
        let signature = wrap(SEQUENCE, &[&[OBJECT_IDENTIFIER, identifier.len() as u8], identifier].concat());
        wrap(SEQUENCE, &[wrap(SEQUENCE, b"anything"), signature].concat())
    }

    #[test]
    fn a_certificate_is_hashed_as_its_signature_hashes() {
        let of_length = |identifier: &[u8]| of(&certificate(identifier)).map(|hash| hash.len());
        for (identifier, hash) in ALGORITHMS {
            assert_eq!(of_length(identifier), Some(hash.output_len()));
        }
        // Ed25519, and RSA-PSS.
        assert_eq!(of_length(&[0x2b, 0x65, 0x70]), None);
        assert_eq!(of_length(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a]), None);
    }

    #[test]
    fn what_is_cut_short_or_no_certificate_is_bound_to_nothing() {
        let whole = certificate(ALGORITHMS[2].0);
        for end in 0..whole.len() {
            assert_eq!(of(&whole[..end]), None, "{end}");
        }
        for first in 0..=u8::MAX {
            let mut other = whole.clone();
            other[0] = first;
            assert_eq!(of(&other).is_some(), first == SEQUENCE);
            other = whole.clone();
            other[1] = first;
            let _ = of(&other);
        }
    }
}
