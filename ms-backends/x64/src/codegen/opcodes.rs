//! Lists the machine instructions in use: one opcode for all vector lengths of an instruction.

use super::target::{Target, Width};
use iced_x86::Code;

/// An instruction in all its vector lengths. [`Code`] numbers the lengths of an encoding consecutively, shortest first.
/// So the first code identifies all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opcode {
    /// The 128-bit VEX form for AVX2, or `INVALID`. The 256-bit form follows it in [`Code`].
    vex: Code,
    /// The 128-bit EVEX form for AVX-512, or `INVALID`. The forms of 256 and 512 bits follow it.
    evex: Code,
    /// Whether `vex` and `evex` are each the only form.
    single: bool,
}

impl Opcode {
    const fn lengths(vex: Code, evex: Code) -> Self {
        Self { vex, evex, single: false }
    }

    const fn single(vex: Code, evex: Code) -> Self {
        Self { vex, evex, single: true }
    }

    /// Returns the form for operands whose widest width is `width`.
    pub fn code(self, target: Target, width: Width) -> Code {
        let first = match target {
            Target::Avx2 => self.vex,
            Target::Avx512 => self.evex,
        };
        assert!(first != Code::INVALID, "{self:?} is no instruction of {target:?}");
        if self.single {
            return first;
        }
        let step = match width {
            Width::Ymm => 1,
            Width::Zmm => 2,
            Width::Xmm | Width::Mask => 0,
        };
        Code::try_from(first as usize + step).expect("the lengths of an instruction follow one another")
    }
}

macro_rules! rows {
    (@vex -) => { Code::INVALID };
    (@vex $code:ident) => { Code::$code };
    ($($kind:ident { $($name:ident = $vex:tt, $evex:tt;)* })*) => {
        $($(pub const $name: Opcode = Opcode::$kind(rows!(@vex $vex), rows!(@vex $evex));)*)*

        /// All rows by name.
        #[cfg(test)]
        pub const ALL: &[(&str, Opcode)] = &[$($((stringify!($name), $name),)*)*];
    };
}

rows! {
lengths {
    // Floating point.
    ADD_PS = VEX_Vaddps_xmm_xmm_xmmm128, EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32;
    ADD_PD = VEX_Vaddpd_xmm_xmm_xmmm128, EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64;
    SUB_PS = VEX_Vsubps_xmm_xmm_xmmm128, EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32;
    SUB_PD = VEX_Vsubpd_xmm_xmm_xmmm128, EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64;
    MUL_PS = VEX_Vmulps_xmm_xmm_xmmm128, EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32;
    MUL_PD = VEX_Vmulpd_xmm_xmm_xmmm128, EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64;
    DIV_PS = VEX_Vdivps_xmm_xmm_xmmm128, EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32;
    DIV_PD = VEX_Vdivpd_xmm_xmm_xmmm128, EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64;
    MIN_PS = VEX_Vminps_xmm_xmm_xmmm128, EVEX_Vminps_xmm_k1z_xmm_xmmm128b32;
    MIN_PD = VEX_Vminpd_xmm_xmm_xmmm128, EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64;
    MAX_PS = VEX_Vmaxps_xmm_xmm_xmmm128, EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32;
    MAX_PD = VEX_Vmaxpd_xmm_xmm_xmmm128, EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64;
    RANGE_PS = -, EVEX_Vrangeps_xmm_k1z_xmm_xmmm128b32_imm8;
    RANGE_PD = -, EVEX_Vrangepd_xmm_k1z_xmm_xmmm128b64_imm8;
    SQRT_PS = VEX_Vsqrtps_xmm_xmmm128, EVEX_Vsqrtps_xmm_k1z_xmmm128b32;
    SQRT_PD = VEX_Vsqrtpd_xmm_xmmm128, EVEX_Vsqrtpd_xmm_k1z_xmmm128b64;
    ROUND_PS = VEX_Vroundps_xmm_xmmm128_imm8, EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8;
    ROUND_PD = VEX_Vroundpd_xmm_xmmm128_imm8, EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8;
    CMP_PS = VEX_Vcmpps_xmm_xmm_xmmm128_imm8, EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8;
    CMP_PD = VEX_Vcmppd_xmm_xmm_xmmm128_imm8, EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8;
    FMA132_PS = VEX_Vfmadd132ps_xmm_xmm_xmmm128, EVEX_Vfmadd132ps_xmm_k1z_xmm_xmmm128b32;
    FMA132_PD = VEX_Vfmadd132pd_xmm_xmm_xmmm128, EVEX_Vfmadd132pd_xmm_k1z_xmm_xmmm128b64;
    FMA213_PS = VEX_Vfmadd213ps_xmm_xmm_xmmm128, EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32;
    FMA213_PD = VEX_Vfmadd213pd_xmm_xmm_xmmm128, EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64;
    FMA231_PS = VEX_Vfmadd231ps_xmm_xmm_xmmm128, EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32;
    FMA231_PD = VEX_Vfmadd231pd_xmm_xmm_xmmm128, EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64;
    SCALE_PS = -, EVEX_Vscalefps_xmm_k1z_xmm_xmmm128b32;
    SCALE_PD = -, EVEX_Vscalefpd_xmm_k1z_xmm_xmmm128b64;

    // Integers.
    AND_D = VEX_Vpand_xmm_xmm_xmmm128, EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32;
    AND_Q = VEX_Vpand_xmm_xmm_xmmm128, EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64;
    OR_D = VEX_Vpor_xmm_xmm_xmmm128, EVEX_Vpord_xmm_k1z_xmm_xmmm128b32;
    OR_Q = VEX_Vpor_xmm_xmm_xmmm128, EVEX_Vporq_xmm_k1z_xmm_xmmm128b64;
    XOR_D = VEX_Vpxor_xmm_xmm_xmmm128, EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32;
    XOR_Q = VEX_Vpxor_xmm_xmm_xmmm128, EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64;
    ANDN = VEX_Vpandn_xmm_xmm_xmmm128, -;
    ADD_D = VEX_Vpaddd_xmm_xmm_xmmm128, EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32;
    ADD_Q = VEX_Vpaddq_xmm_xmm_xmmm128, EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64;
    SUB_D = VEX_Vpsubd_xmm_xmm_xmmm128, EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32;
    SUB_Q = VEX_Vpsubq_xmm_xmm_xmmm128, EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64;
    MULL_D = VEX_Vpmulld_xmm_xmm_xmmm128, EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32;
    MULL_Q = -, EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64;
    MULU_DQ = VEX_Vpmuludq_xmm_xmm_xmmm128, EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64;
    MINS_D = VEX_Vpminsd_xmm_xmm_xmmm128, EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32;
    MINS_Q = -, EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64;
    MINU_D = VEX_Vpminud_xmm_xmm_xmmm128, EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32;
    MINU_Q = -, EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64;
    MAXS_D = VEX_Vpmaxsd_xmm_xmm_xmmm128, EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32;
    MAXS_Q = -, EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64;
    MAXU_D = VEX_Vpmaxud_xmm_xmm_xmmm128, EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32;
    MAXU_Q = -, EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64;
    ABS_B = VEX_Vpabsb_xmm_xmmm128, EVEX_Vpabsb_xmm_k1z_xmmm128;
    ABS_D = VEX_Vpabsd_xmm_xmmm128, EVEX_Vpabsd_xmm_k1z_xmmm128b32;
    ABS_Q = -, EVEX_Vpabsq_xmm_k1z_xmmm128b64;
    SLLV_D = VEX_Vpsllvd_xmm_xmm_xmmm128, EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32;
    SLLV_Q = VEX_Vpsllvq_xmm_xmm_xmmm128, EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64;
    SRLV_D = VEX_Vpsrlvd_xmm_xmm_xmmm128, EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32;
    SRLV_Q = VEX_Vpsrlvq_xmm_xmm_xmmm128, EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64;
    SRAV_D = VEX_Vpsravd_xmm_xmm_xmmm128, EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32;
    SRAV_Q = -, EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64;
    SLL_D = VEX_Vpslld_xmm_xmm_imm8, EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8;
    SLL_Q = VEX_Vpsllq_xmm_xmm_imm8, EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8;
    SRL_D = VEX_Vpsrld_xmm_xmm_imm8, EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8;
    SRL_Q = VEX_Vpsrlq_xmm_xmm_imm8, EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8;
    SRA_D = VEX_Vpsrad_xmm_xmm_imm8, EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8;
    CMPEQ_D = VEX_Vpcmpeqd_xmm_xmm_xmmm128, -;
    CMPEQ_Q = VEX_Vpcmpeqq_xmm_xmm_xmmm128, -;
    CMPGT_D = VEX_Vpcmpgtd_xmm_xmm_xmmm128, -;
    CMPGT_Q = VEX_Vpcmpgtq_xmm_xmm_xmmm128, -;
    CMP_D = -, EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8;
    CMP_UD = -, EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8;
    CMP_Q = -, EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8;
    CMP_UQ = -, EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8;

    // Selection.
    BLENDM_PS = -, EVEX_Vblendmps_xmm_k1z_xmm_xmmm128b32;
    FIXUP_PS = -, EVEX_Vfixupimmps_xmm_k1z_xmm_xmmm128b32_imm8;
    BLENDM_PD = -, EVEX_Vblendmpd_xmm_k1z_xmm_xmmm128b64;
    BLENDV_PS = VEX_Vblendvps_xmm_xmm_xmmm128_xmm, -;
    BLENDV_PD = VEX_Vblendvpd_xmm_xmm_xmmm128_xmm, -;
    M2D = -, EVEX_Vpmovm2d_xmm_kr;
    M2Q = -, EVEX_Vpmovm2q_xmm_kr;
    M2B = -, EVEX_Vpmovm2b_xmm_kr;
    D2M = -, EVEX_Vpmovd2m_kr_xmm;
    TEST_B = -, EVEX_Vptestmb_kr_k1_xmm_xmmm128;

    // Conversions.
    CVT_PS_PD = VEX_Vcvtps2pd_xmm_xmmm64, EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32;
    CVT_PD_PS = VEX_Vcvtpd2ps_xmm_xmmm128, EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64;
    CVT_D_PS = VEX_Vcvtdq2ps_xmm_xmmm128, EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32;
    CVT_D_PD = VEX_Vcvtdq2pd_xmm_xmmm64, EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32;
    CVT_UD_PS = -, EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32;
    CVT_UD_PD = -, EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32;
    CVT_Q_PS = -, EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64;
    CVT_Q_PD = -, EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64;
    CVT_UQ_PS = -, EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64;
    CVT_UQ_PD = -, EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64;
    CVTT_PS_D = VEX_Vcvttps2dq_xmm_xmmm128, EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32;
    CVTT_PD_D = VEX_Vcvttpd2dq_xmm_xmmm128, EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64;
    CVTT_PS_UD = -, EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32;
    CVTT_PD_UD = -, EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64;
    CVTT_PD_Q = -, EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64;
    CVTT_PS_UQ = -, EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32;
    CVTT_PD_UQ = -, EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64;
    CVT_PH_PS = VEX_Vcvtph2ps_xmm_xmmm64, EVEX_Vcvtph2ps_xmm_k1z_xmmm64;
    CVT_PS_PH = VEX_Vcvtps2ph_xmmm64_xmm_imm8, EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8;
    SX_B_D = VEX_Vpmovsxbd_xmm_xmmm32, EVEX_Vpmovsxbd_xmm_k1z_xmmm32;
    ZX_B_D = VEX_Vpmovzxbd_xmm_xmmm32, EVEX_Vpmovzxbd_xmm_k1z_xmmm32;
    ZX_B_Q = VEX_Vpmovzxbq_xmm_xmmm16, EVEX_Vpmovzxbq_xmm_k1z_xmmm16;
    SX_W_D = VEX_Vpmovsxwd_xmm_xmmm64, EVEX_Vpmovsxwd_xmm_k1z_xmmm64;
    ZX_W_D = VEX_Vpmovzxwd_xmm_xmmm64, EVEX_Vpmovzxwd_xmm_k1z_xmmm64;
    SX_D_Q = VEX_Vpmovsxdq_xmm_xmmm64, EVEX_Vpmovsxdq_xmm_k1z_xmmm64;
    ZX_D_Q = VEX_Vpmovzxdq_xmm_xmmm64, EVEX_Vpmovzxdq_xmm_k1z_xmmm64;
    TRUNC_D_B = -, EVEX_Vpmovdb_xmmm32_k1z_xmm;
    TRUNC_D_W = -, EVEX_Vpmovdw_xmmm64_k1z_xmm;
    TRUNC_Q_D = -, EVEX_Vpmovqd_xmmm64_k1z_xmm;
    PACKUS_D_W = VEX_Vpackusdw_xmm_xmm_xmmm128, -;
    PACKUS_W_B = VEX_Vpackuswb_xmm_xmm_xmmm128, -;

    // Moves.
    MOVE = VEX_Vmovups_xmm_xmmm128, EVEX_Vmovups_xmm_k1z_xmmm128;
    MOVE_Q = VEX_Vmovupd_xmm_xmmm128, EVEX_Vmovupd_xmm_k1z_xmmm128;
    STORE = VEX_Vmovups_xmmm128_xmm, EVEX_Vmovups_xmmm128_k1z_xmm;
    STREAM = VEX_Vmovntps_m128_xmm, EVEX_Vmovntps_m128_xmm;
    LOAD_MASKED_B = -, EVEX_Vmovdqu8_xmm_k1z_xmmm128;
    LOAD_MASKED_W = -, EVEX_Vmovdqu16_xmm_k1z_xmmm128;
    LOAD_MASKED_D = -, EVEX_Vmovdqu32_xmm_k1z_xmmm128;
    LOAD_MASKED_Q = -, EVEX_Vmovdqu64_xmm_k1z_xmmm128;
    STORE_MASKED_B = -, EVEX_Vmovdqu8_xmmm128_k1z_xmm;
    STORE_MASKED_W = -, EVEX_Vmovdqu16_xmmm128_k1z_xmm;
    STORE_MASKED_D = -, EVEX_Vmovdqu32_xmmm128_k1z_xmm;
    STORE_MASKED_Q = -, EVEX_Vmovdqu64_xmmm128_k1z_xmm;
    SPLAT_B = VEX_Vpbroadcastb_xmm_xmmm8, EVEX_Vpbroadcastb_xmm_k1z_xmmm8;
    SPLAT_W = VEX_Vpbroadcastw_xmm_xmmm16, EVEX_Vpbroadcastw_xmm_k1z_xmmm16;
    SPLAT_D = VEX_Vpbroadcastd_xmm_xmmm32, EVEX_Vpbroadcastd_xmm_k1z_xmmm32;
    SPLAT_Q = VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64;
    SHUFFLE_D = VEX_Vpshufd_xmm_xmmm128_imm8, EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8;
    SHUFFLE2_PS = VEX_Vshufps_xmm_xmm_xmmm128_imm8, -;
    GATHER_D = VEX_Vpgatherqd_xmm_vm64x_xmm, EVEX_Vpgatherqd_xmm_k1_vm64x;
    GATHER_Q = VEX_Vpgatherqq_xmm_vm64x_xmm, EVEX_Vpgatherqq_xmm_k1_vm64x;
}
single {
    PERMUTE_YMM_Q = VEX_Vpermq_ymm_ymmm256_imm8, EVEX_Vpermq_ymm_k1z_ymmm256b64_imm8;
    SHUFFLE_ZMM_128 = -, EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8;
    EXTRACT_HIGH_XMM = VEX_Vextracti128_xmmm128_ymm_imm8, -;
    INSERT_HIGH_XMM = VEX_Vinserti128_ymm_ymm_xmmm128_imm8, -;
    INSERT_HIGH_YMM = -, EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8;
    LOAD_8 = VEX_Vmovq_xmm_xmmm64, EVEX_Vmovq_xmm_xmmm64;
    LOAD_4 = VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32;
    STORE_8 = VEX_Vmovq_xmmm64_xmm, EVEX_Vmovq_xmmm64_xmm;
    STORE_4 = VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm;
    TO_GPR = VEX_Vmovq_rm64_xmm, EVEX_Vmovq_rm64_xmm;
    STORE_LANE_B = VEX_Vpextrb_r32m8_xmm_imm8, EVEX_Vpextrb_r32m8_xmm_imm8;
    STORE_LANE_W = VEX_Vpextrw_r32m16_xmm_imm8, EVEX_Vpextrw_r32m16_xmm_imm8;
    K_AND = -, VEX_Kandw_kr_kr_kr;
    K_ANDN = -, VEX_Kandnw_kr_kr_kr;
    K_OR = -, VEX_Korw_kr_kr_kr;
    K_XOR = -, VEX_Kxorw_kr_kr_kr;
    K_XNOR = -, VEX_Kxnorw_kr_kr_kr;
    K_NOT = -, VEX_Knotw_kr_kr;
    K_SHIFT_RIGHT = -, VEX_Kshiftrw_kr_kr_imm8;
    K_MOVE = -, VEX_Kmovw_kr_km16;
    K_STORE = -, VEX_Kmovw_m16_kr;
    K_FROM_GPR = -, VEX_Kmovw_kr_r32;
    K_TO_GPR = -, VEX_Kmovw_r32_kr;
}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits the name of a code into encoding and mnemonic. The operands are dropped.
    fn parts(code: Code) -> (String, String) {
        let text = format!("{code:?}");
        let mut parts = text.splitn(3, '_').map(str::to_owned);
        (parts.next().expect("an encoding"), parts.next().expect("a mnemonic"))
    }

    #[test]
    fn the_lengths_of_an_instruction_follow_one_another() {
        for &(name, opcode) in ALL {
            for (target, first, widths) in [
                (Target::Avx2, opcode.vex, &[Width::Xmm, Width::Ymm][..]),
                (Target::Avx512, opcode.evex, &[Width::Xmm, Width::Ymm, Width::Zmm][..]),
            ] {
                if first == Code::INVALID {
                    continue;
                }
                for &width in widths {
                    let code = opcode.code(target, width);
                    assert_eq!(parts(code), parts(first), "{name}");
                    if !opcode.single {
                        let operands = format!("{code:?}");
                        let longest = ["zmm", "ymm", "xmm"].into_iter().find(|it| operands.contains(it));
                        let by_index = ["vm64z", "vm64y", "vm64x"].into_iter().find(|it| operands.contains(it));
                        let letter = by_index.map_or_else(|| longest.map(|it| &it[..1]), |it| Some(&it[4..]));
                        assert_eq!(letter, Some(&width.name()[..1]), "{name}: {operands}");
                    }
                }
            }
        }
    }
}
