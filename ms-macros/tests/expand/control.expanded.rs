fn f(x: &Tensor, n: usize, names: &[String]) -> Result<Tensor> {
    use __rt::Compare as _;
    use __rt::reach::*;
    let mut i = 0;
    {
        let mut __repeat = __rt::repeat();
        let mut __i = __rt::held("`i`");
        <_ as __rt::Carry<_>>::accept(__repeat.kind(), ::core::option::Option::Some(&i));
        'repeat2: loop {
            __repeat.head();
            __repeat.carry(&mut __i, &mut i);
            if __repeat.is_over() {
                __repeat.carry(&mut __i, &mut i);
                break;
            }
            if !__repeat
                .test({
                    let __logic = __rt::and(i < names.len());
                    let mut __right = ::core::option::Option::None;
                    if __logic.runs_right() {
                        __right = ::core::option::Option::Some(
                            __rt::Subject(&check(&names[i])?).gt(&2),
                        );
                    }
                    __logic.end(__right)
                })
            {
                break;
            }
            __repeat.carry(&mut __i, &mut i);
            {
                i += 1;
            }
        }
    }
    if n == "4".parse()? && i != n {
        return Ok(x.clone());
    }
    {
        let mut __region = __rt::branch();
        #[allow(unreachable_code)]
        'join5: {
            if __region
                .test({
                    let __logic = __rt::or(__rt::Subject(&x).gt(&0.5));
                    let mut __right = ::core::option::Option::None;
                    if __logic.runs_right() {
                        __right = ::core::option::Option::Some(flag);
                    }
                    __logic.end(__right)
                })
            {
                __region.begin();
                {
                    assert!(
                        __rt::holds(__rt::Subject(& x).lt(& n),
                        "assertion failed: x < n"), "x is too large"
                    );
                    assert!(n < 9, "never {n}");
                }
                if __region.is_decided() {
                    break 'join5;
                }
                __region.turn();
            }
            if __region.is_decided() {
                break 'join5;
            }
            __region.join();
        }
    }
    let mask = __rt::Subject(&x).is(&1.0);
    for (k, name) in names.iter().enumerate() {
        if name.is_empty() {
            continue;
        }
        if k == n - 1 {
            break;
        }
    }
    let first = loop {
        if n > 5 {
            break x;
        }
        i += 1;
    };
    {
        let mut __region = __rt::branch();
        let mut __value = __rt::held("the value");
        #[allow(unreachable_code, unused_labels)]
        let __result = 'join17: {
            if let Some(first) = names.first() && first < "a"
                && __region.test(__rt::Subject(&x).le(&n))
            {
                __region.begin();
                let __arm: Result<Tensor> = { fail(first) };
                let __arm = ::core::option::Option::Some(__arm);
                <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                __region.first(&mut __value, __arm);
                if __region.is_decided() {
                    break 'join17 __region.alone(&mut __value);
                }
                __region.turn();
            }
            __region.other();
            let __arm: Result<Tensor> = {
                {
                    let __scrutinee = __rt::matched(&n);
                    {
                        let mut __region = __rt::branch();
                        let mut __value = __rt::held("the value");
                        #[allow(unreachable_code, unused_labels)]
                        let __result = 'join16: {
                            if __region
                                .test({
                                    let __logic = __rt::and(__rt::case(&__scrutinee, 3));
                                    let mut __right = ::core::option::Option::None;
                                    if __logic.runs_right() {
                                        __right = ::core::option::Option::Some(
                                            __rt::Subject(&x).ge(&&mask),
                                        );
                                    }
                                    __logic.end(__right)
                                })
                            {
                                __region.begin();
                                let __arm: Result<Tensor> = { make(x) };
                                let __arm = ::core::option::Option::Some(__arm);
                                <_ as __rt::Carry<
                                    _,
                                >>::accept(__region.kind(), __arm.as_ref());
                                __region.first(&mut __value, __arm);
                                if __region.is_decided() {
                                    break 'join16 __region.alone(&mut __value);
                                }
                                __region.turn();
                            }
                            let __arm: Result<Tensor> = {
                                {
                                    let mut __region = __rt::branch();
                                    let mut __value = __rt::held("the value");
                                    #[allow(unreachable_code, unused_labels)]
                                    let __result = 'join15: {
                                        if __region
                                            .test({
                                                #[allow(unused_variables, unused_mut)]
                                                let m = __rt::Copied::copy(&__scrutinee);
                                                __rt::Subject(&m).gt(&2)
                                            })
                                        {
                                            __region.begin();
                                            let __arm: Result<Tensor> = {
                                                #[allow(unused_variables, unused_mut)]
                                                let m = __rt::Copied::copy(&__scrutinee);
                                                (0..m)
                                                    .map(|k| {
                                                        let __logic = __rt::and(__rt::Subject(&k).lt(&m));
                                                        let mut __right = ::core::option::Option::None;
                                                        if __logic.runs_right() {
                                                            __logic.uses("`k`", (&&&&__rt::Probe(&k)).hands());
                                                            __right = ::core::option::Option::Some(
                                                                __rt::Subject(&x.shape()).ne(&[k]),
                                                            );
                                                        }
                                                        __logic.end(__right)
                                                    })
                                                    .collect()
                                            };
                                            let __arm = ::core::option::Option::Some(__arm);
                                            <_ as __rt::Carry<
                                                _,
                                            >>::accept(__region.kind(), __arm.as_ref());
                                            __region.first(&mut __value, __arm);
                                            if __region.is_decided() {
                                                break 'join15 __region.alone(&mut __value);
                                            }
                                            __region.turn();
                                        }
                                        let __arm: Result<Tensor> = { Ok(x.clone()) };
                                        let mut __arm = ::core::option::Option::Some(__arm);
                                        __region.second(&mut __value, &mut __arm);
                                        if __region.is_decided() {
                                            break 'join15 __arm;
                                        }
                                        __region.join();
                                        __region.value(__value, __arm)
                                    };
                                    __rt::branch_value(__result)
                                }
                            };
                            let mut __arm = ::core::option::Option::Some(__arm);
                            __region.second(&mut __value, &mut __arm);
                            if __region.is_decided() {
                                break 'join16 __arm;
                            }
                            __region.join();
                            __region.value(__value, __arm)
                        };
                        __rt::branch_value(__result)
                    }
                }
            };
            let mut __arm = ::core::option::Option::Some(__arm);
            __region.second(&mut __value, &mut __arm);
            if __region.is_decided() {
                break 'join17 __arm;
            }
            __region.join();
            __region.value(__value, __arm)
        };
        __rt::branch_value(__result)
    }
}
