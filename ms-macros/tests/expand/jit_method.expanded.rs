#[track_caller]
fn step(&mut self, __param1: (Tensor, bool)) -> Result<Tensor, Error> {
    static __FUNCTION: ::ms::__rt::JitFn = ::ms::__rt::JitFn::new(
        "step",
        ::core::file!(),
        ::core::line!(),
        11518632898550236575u64,
    );
    let __own0 = <Self as ::ms::__rt::Mutable<_>>::own(&*self);
    let mut __call = __FUNCTION
        .begin(
            ::ms::__rt::type_key(&|| {}),
            |__sink| {
                __sink.argument("self");
                ::ms::__rt::Arg::visit((__own0.get)(&*self), __sink);
                __sink.argument("(a , b)");
                <(Tensor, bool) as ::ms::__rt::Arg>::visit(&__param1, __sink);
            },
        );
    <Result<Tensor, Error> as ::ms::__rt::JitReturn>::accept();
    match __call
        .lending(
            &mut [&mut |__next| (__own0.replace)(&mut *self, __next)],
            &mut ::core::option::Option::None::<()>,
        )
    {
        ::core::option::Option::Some(
            ::core::result::Result::Ok((__result, (__copy0,))),
        ) => {
            *self = (__own0.back)(__copy0);
            return ::core::result::Result::Ok(__result);
        }
        ::core::option::Option::Some(::core::result::Result::Err(__error)) => {
            return ::core::result::Result::Err(__error);
        }
        ::core::option::Option::None => {}
    }
    let mut __copy0 = ::core::clone::Clone::clone(&*__call.enter((__own0.get)(&*self)));
    let __arg1 = __call.enter(&__param1);
    match __call
        .finish(move || match ::ms::__rt::body(|| -> Result<Tensor, Error> {
            let __self = &mut __copy0;
            let (a, b) = ::core::clone::Clone::clone(&*__arg1);
            {
                println!("{}", __self.name);
                __self.value = a;
                self::helper(b)
            }
        }) {
            ::core::result::Result::Ok(__result) => {
                ::core::result::Result::Ok((__result, (__copy0,)))
            }
            ::core::result::Result::Err(__error) => ::core::result::Result::Err(__error),
        })
    {
        ::core::result::Result::Ok((__result, (__copy0,))) => {
            *self = (__own0.back)(__copy0);
            ::core::result::Result::Ok(__result)
        }
        ::core::result::Result::Err(__error) => ::core::result::Result::Err(__error),
    }
}
