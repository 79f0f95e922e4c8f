//! Keys and signatures against those of OpenSSL.

use alloc::format;
use alloc::vec;

use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

use super::*;

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../tests/keys/", $name))
    };
}

const P256: &str = file!("p256.pem");
const MESSAGE: &[u8] = b"hello";

fn key(pem: &str) -> ClientKey {
    ClientKey::from_pem(pem).unwrap()
}

fn error(pem: &str) -> KeyError {
    ClientKey::from_pem(pem).err().unwrap()
}

/// Verifies a signature by ES256, which is different each time.
fn verify_es256(public: &[u8], signature: &[u8]) {
    assert_eq!(signature.len(), 64);
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public).verify(MESSAGE, signature).unwrap();
}

// covers: AUTH-067
#[test]
fn signatures_are_those_of_openssl() {
    for pem in [P256, file!("p256-sec1.pem")] {
        let key = key(pem);
        assert_eq!(key.algorithm(), Algorithm::Es256);
        let public = STANDARD.decode(file!("p256.public")).unwrap();
        verify_es256(&public, &key.sign(MESSAGE).unwrap());
        assert_ne!(key.sign(MESSAGE), key.sign(MESSAGE));
    }
    for (pem, algorithm, signature) in [
        (file!("ed25519.pem"), Algorithm::EdDsa, file!("ed25519.signature")),
        (file!("rsa.pem"), Algorithm::Rs256, file!("rsa.signature")),
        (file!("rsa-pkcs1.pem"), Algorithm::Rs256, file!("rsa.signature")),
    ] {
        let key = key(pem);
        assert_eq!(key.algorithm(), algorithm);
        assert_eq!(STANDARD.encode(key.sign(MESSAGE).unwrap()), signature, "{algorithm:?}");
    }
}

#[test]
fn key_is_found_among_other_text() {
    let text = format!(
        "Bag Attributes\n{}\n\r\n{}\n",
        file!("../certificates/server.pem"),
        P256.replace('\n', "\r\n")
    );
    assert_eq!(key(&text).algorithm(), Algorithm::Es256);
}

#[test]
fn unusable_keys_are_told_apart() {
    for (pem, expected) in [
        ("", KeyError::NoKey),
        ("hush", KeyError::NoKey),
        (file!("../certificates/server.pem"), KeyError::NoKey),
        ("-----BEGIN PRIVATE KEY-----\nhush!\n-----END PRIVATE KEY-----\n", KeyError::NoKey),
        (&P256[..120], KeyError::NoKey),
        (file!("encrypted.pem"), KeyError::Encrypted),
        (file!("encrypted-sec1.pem"), KeyError::Encrypted),
        (file!("p384.pem"), KeyError::UnknownKind),
        (file!("p384-sec1.pem"), KeyError::UnknownKind),
        (file!("rsa-short.pem"), KeyError::Rejected("TooSmall".into())),
    ] {
        assert_eq!(error(pem), expected, "{pem}");
    }
    let cut = STANDARD.encode(
        &STANDARD.decode(P256.lines().filter(|l| !l.starts_with('-')).collect::<String>()).unwrap()[..90],
    );
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{cut}\n-----END PRIVATE KEY-----\n");
    assert!(matches!(error(&pem), KeyError::Rejected(_)), "{:?}", error(&pem));
}

// covers: SEC-019
#[test]
fn errors_and_debug_output_hold_no_part_of_a_key() {
    let line = P256.lines().nth(1).unwrap();
    for pem in [P256.replace("-----END", "----END"), P256.replace('A', "!"), P256[..100].into()] {
        let (error, part) = (error(&pem), line.get(..8).unwrap());
        assert!(!format!("{error} {error:?}").contains(part), "{error:?}");
    }
    assert_eq!(format!("{:?}", key(P256)), "ClientKey { algorithm: Es256, .. }");
}

#[test]
fn generated_key_signs_proofs() {
    let (first, second) = (generate_dpop_key().unwrap(), generate_dpop_key().unwrap());
    assert!(first.private != second.private && first.public != second.public);
    for key in [first, second] {
        let public = [&[4][..], &key.public].concat();
        verify_es256(&public, &sign_dpop(&key.private, MESSAGE).unwrap());
    }
    let (rejected, none) = ("the private key cannot be used: ", "there is no private key in PEM");
    for (private, expected) in [("", rejected), ("%", none), ("aHVzaA==", rejected)] {
        let error = sign_dpop(&private.into(), MESSAGE).err().unwrap();
        assert!(format!("{error}").starts_with(expected), "{error:?}");
    }
}

#[test]
fn der_lengths_are_minimal() {
    for (length, header) in [
        (0, &[4, 0][..]),
        (127, &[4, 127]),
        (128, &[4, 0x81, 128]),
        (255, &[4, 0x81, 255]),
        (256, &[4, 0x82, 1, 0]),
    ] {
        let encoded = der(OCTET_STRING, &vec![7; length]);
        assert_eq!(encoded.split_at(header.len()), (header, &*vec![7; length]));
    }
}
