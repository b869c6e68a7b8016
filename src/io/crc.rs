//! Computes 32-bit cyclic redundancy checks with reflected bits.

/// Computes the remainder of every byte value by a polynomial.
const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            rest = (rest >> 1) ^ if rest & 1 == 1 { polynomial } else { 0 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

fn checksum(table: &[u32; 256], bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |rest, byte| (rest >> 8) ^ table[((rest ^ *byte as u32) & 0xff) as usize])
}

/// Computes the CRC-32 of zip and gzip.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0xedb8_8320);
    checksum(&TABLE, bytes)
}

/// Computes CRC-32C, with the Castagnoli polynomial.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    static TABLE: [u32; 256] = table(0x82f6_3b78);
    checksum(&TABLE, bytes)
}

#[cfg(test)]
mod tests {
    /// Check values of the catalogue <https://reveng.sourceforge.io/crc-catalogue/>.
    #[test]
    fn check_values() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(super::crc32(b""), 0);
    }
}
