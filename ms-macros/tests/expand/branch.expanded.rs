fn statement(x: &Tensor, y: &Tensor) -> Tensor {
    use __rt::Compare as _;
    let mut sum = x + y;
    {
        let mut __region = __rt::branch();
        let mut __sum = __rt::held("`sum`");
        <_ as __rt::Carry<
            _,
        >>::accept(__region.kind(), ::core::option::Option::Some(&sum));
        #[allow(unreachable_code)]
        'join4: {
            if __region.test(__rt::Subject(&x).lt(&y)) {
                __region.save(&mut __sum, &sum);
                __region.begin();
                {
                    sum += 1.0;
                }
                __region.carry(&mut __sum, &mut sum);
                if __region.is_decided() {
                    break 'join4;
                }
                __region.turn();
            }
            __region.carry(&mut __sum, &mut sum);
            if __region.is_decided() {
                break 'join4;
            }
            __region.join();
            __region.carry(&mut __sum, &mut sum);
        }
    }
    sum
}
fn value(x: &Tensor, pair: &mut Pair) -> Tensor {
    use __rt::Compare as _;
    let half: Tensor = {
        let mut __region = __rt::branch();
        let mut __value = __rt::held("the value");
        let mut __pair = __rt::held("`pair`");
        <_ as __rt::Carry<
            _,
        >>::accept(__region.kind(), ::core::option::Option::Some(&(*pair)));
        #[allow(unreachable_code, unused_labels)]
        let __result = 'join7: {
            if __region
                .test({
                    let __logic = __rt::and(__rt::Subject(&x).gt(&0.5));
                    let mut __right = ::core::option::Option::None;
                    if __logic.runs_right() {
                        __right = ::core::option::Option::Some(pair.flag);
                    }
                    __logic.end(__right)
                })
            {
                __region.save(&mut __pair, &(*pair));
                __region.begin();
                let __arm: Tensor = {
                    pair.left = x * 2.0;
                    combine(x.clone(), &mut *pair)
                };
                let __arm = ::core::option::Option::Some(__arm);
                <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                __region.first(&mut __value, __arm);
                __region.carry(&mut __pair, &mut (*pair));
                if __region.is_decided() {
                    break 'join7 __region.alone(&mut __value);
                }
                __region.turn();
            }
            let __arm: Tensor = {
                {
                    let mut __region = __rt::branch();
                    let mut __value = __rt::held("the value");
                    #[allow(unreachable_code, unused_labels)]
                    let __result = 'join6: {
                        if let Some(other) = pair.other.as_ref()
                            && __region.test(__rt::Subject(&other).eq(&x))
                        {
                            __region.begin();
                            let __arm: Tensor = { other.clone() };
                            let __arm = ::core::option::Option::Some(__arm);
                            <_ as __rt::Carry<
                                _,
                            >>::accept(__region.kind(), __arm.as_ref());
                            __region.first(&mut __value, __arm);
                            if __region.is_decided() {
                                break 'join6 __region.alone(&mut __value);
                            }
                            __region.turn();
                        }
                        __region.other();
                        let __arm: Tensor = { -x };
                        let mut __arm = ::core::option::Option::Some(__arm);
                        __region.second(&mut __value, &mut __arm);
                        if __region.is_decided() {
                            break 'join6 __arm;
                        }
                        __region.join();
                        __region.value(__value, __arm)
                    };
                    __rt::branch_value(__result)
                }
            };
            let mut __arm = ::core::option::Option::Some(__arm);
            __region.second(&mut __value, &mut __arm);
            __region.carry(&mut __pair, &mut (*pair));
            if __region.is_decided() {
                break 'join7 __arm;
            }
            __region.join();
            __region.carry(&mut __pair, &mut (*pair));
            __region.value(__value, __arm)
        };
        __rt::branch_value(__result)
    };
    half
}
fn deferred(x: &Tensor, config: &Config) -> Tensor {
    #[allow(unused_mut)]
    let mut scale;
    {
        let mut __region = __rt::branch();
        <_ as __rt::Deferring>::accept(__region.kind());
        #[allow(unreachable_code)]
        'join4: {
            if __region.test(config.large) {
                __region.begin();
                {
                    scale = 2.0;
                }
                if __region.is_decided() {
                    break 'join4;
                }
                __region.turn();
            }
            {
                scale = 1.0;
            }
            if __region.is_decided() {
                break 'join4;
            }
            __region.join();
        }
    }
    x * scale
}
fn choose(x: &Tensor) -> Tensor {
    {
        let __scrutinee = __rt::matched(&x);
        {
            let mut __region = __rt::branch();
            let mut __value = __rt::held("the value");
            #[allow(unreachable_code, unused_labels)]
            let __result = 'join4: {
                if __region
                    .test({
                        let __logic = __rt::or(__rt::case(&__scrutinee, 2));
                        let mut __right = ::core::option::Option::None;
                        if __logic.runs_right() {
                            __right = ::core::option::Option::Some(
                                __rt::case(&__scrutinee, 3),
                            );
                        }
                        __logic.end(__right)
                    })
                {
                    __region.begin();
                    let __arm: Tensor = { x * 10 };
                    let __arm = ::core::option::Option::Some(__arm);
                    <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                    __region.first(&mut __value, __arm);
                    if __region.is_decided() {
                        break 'join4 __region.alone(&mut __value);
                    }
                    __region.turn();
                }
                let __arm: Tensor = {
                    let other = __rt::Copied::copy(&__scrutinee);
                    -other
                };
                let mut __arm = ::core::option::Option::Some(__arm);
                __region.second(&mut __value, &mut __arm);
                if __region.is_decided() {
                    break 'join4 __arm;
                }
                __region.join();
                __region.value(__value, __arm)
            };
            __rt::branch_value(__result)
        }
    }
}
