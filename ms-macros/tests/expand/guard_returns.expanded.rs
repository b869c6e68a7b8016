#[track_caller]
fn guards(x: &Tensor) -> Result<Tensor> {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "guards",
        ::core::file!(),
        ::core::line!(),
        5359827960994506228u64,
    );
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("x");
                <Tensor as ::ms::__rt::Arg>::visit(x, __sink);
            },
        );
    <Result<Tensor> as ::ms::__rt::JitReturn>::accept();
    if let ::core::option::Option::Some(__result) = __call.cached::<Result<Tensor>>() {
        return __result;
    }
    let __arg0 = __call.enter(x);
    __call
        .finish::<
            Result<Tensor>,
        >(move || -> Result<Tensor> {
            let x = &*__arg0;
            {
                use ::ms::__rt::Compare as _;
                {
                    let mut __region = ::ms::__rt::branch();
                    let mut __value = ::ms::__rt::held("the value");
                    #[allow(unreachable_code, unused_labels)]
                    let __result = 'join7: {
                        if __region.test(::ms::__rt::Subject(&x).lt(&0.0)) {
                            __region.begin();
                            let __arm: Result<Tensor> = { Ok(-x) };
                            let __arm = ::core::option::Option::Some(__arm);
                            <_ as ::ms::__rt::Carry<
                                _,
                            >>::accept(__region.kind(), __arm.as_ref());
                            __region.first(&mut __value, __arm);
                            if __region.is_decided() {
                                break 'join7 __region.alone(&mut __value);
                            }
                            __region.turn();
                        }
                        let __arm: Result<Tensor> = {
                            let y = parse(x)?;
                            {
                                let mut __region = ::ms::__rt::branch();
                                let mut __value = ::ms::__rt::held("the value");
                                #[allow(unreachable_code, unused_labels)]
                                let __result = 'join6: {
                                    if __region.test(::ms::__rt::Subject(&y).gt(&8.0)) {
                                        __region.begin();
                                        let __arm: Result<Tensor> = {
                                            Ok(<_ as ::ms::__rt::Copied>::copy(&y))
                                        };
                                        let __arm = ::core::option::Option::Some(__arm);
                                        <_ as ::ms::__rt::Carry<
                                            _,
                                        >>::accept(__region.kind(), __arm.as_ref());
                                        __region.first(&mut __value, __arm);
                                        if __region.is_decided() {
                                            break 'join6 __region.alone(&mut __value);
                                        }
                                        __region.turn();
                                    }
                                    let __arm: Result<Tensor> = { Ok(y + 1.0) };
                                    let mut __arm = ::core::option::Option::Some(__arm);
                                    __region.second(&mut __value, &mut __arm);
                                    if __region.is_decided() {
                                        break 'join6 __arm;
                                    }
                                    __region.join();
                                    __region.value(__value, __arm)
                                };
                                ::ms::__rt::given(__result)
                            }
                        };
                        let mut __arm = ::core::option::Option::Some(__arm);
                        __region.second(&mut __value, &mut __arm);
                        if __region.is_decided() {
                            break 'join7 __arm;
                        }
                        __region.join();
                        __region.value(__value, __arm)
                    };
                    ::ms::__rt::given(__result)
                }
            }
        })
}
