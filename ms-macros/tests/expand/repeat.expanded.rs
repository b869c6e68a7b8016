fn while_loop(x: &Tensor) -> Tensor {
    use __rt::Compare as _;
    let mut x = x.clone();
    {
        let mut __repeat = __rt::repeat();
        let mut __x = __rt::held("`x`");
        <_ as __rt::Carry<_>>::accept(__repeat.kind(), ::core::option::Option::Some(&x));
        'repeat2: loop {
            __repeat.head();
            __repeat.carry(&mut __x, &mut x);
            if __repeat.is_over() {
                __repeat.carry(&mut __x, &mut x);
                break;
            }
            if !__repeat.test(__rt::Subject(&x).gt(&1.0)) {
                break;
            }
            __repeat.carry(&mut __x, &mut x);
            {
                x = x / 2.0;
            }
        }
    }
    x
}
fn range_loop(x: &Tensor, n: &Tensor) -> Tensor {
    use __rt::Iterate as _;
    let mut sum = x.clone();
    {
        match __rt::Over(ms::range(0, n).step(2)).iterate() {
            mut __repeat => {
                let mut __sum = __rt::held("`sum`");
                <_ as __rt::Carry<
                    _,
                >>::accept(__repeat.kind(), ::core::option::Option::Some(&sum));
                'repeat2: loop {
                    __repeat.head();
                    __repeat.carry(&mut __sum, &mut sum);
                    if __repeat.is_over() {
                        __repeat.carry(&mut __sum, &mut sum);
                        break;
                    }
                    let ::core::option::Option::Some(i) = __repeat.next() else { break };
                    {
                        sum += i;
                    }
                }
            }
        }
    }
    sum
}
fn while_let(x: &Tensor, mut rest: Iter<Dense>) -> Tensor {
    use __rt::Compare as _;
    use __rt::Invoke as _;
    use __rt::reach::*;
    {
        let __vote1 = __rt::vote();
        let __vote2 = __rt::vote();
        let mut __flow1: __rt::Flow<_, ()> = __rt::flow((__vote1, (__vote2, ())));
        let mut __repeat = __rt::repeat();
        __repeat.votes(__vote2);
        let mut __rest = __rt::held("`rest`");
        <_ as __rt::Carry<
            _,
        >>::accept(__repeat.kind(), ::core::option::Option::Some(&rest));
        let mut __was1 = __rt::held_flow();
        'repeat2: loop {
            __repeat.head();
            __repeat.carry_flow(&mut __was1, &mut __flow1, true);
            __repeat.carry(&mut __rest, &mut rest);
            if __repeat.is_over() {
                __repeat.carry_flow(&mut __was1, &mut __flow1, true);
                __repeat.carry(&mut __rest, &mut rest);
                break;
            }
            if __flow1.ends() {
                break;
            }
            if !__repeat.test(true) {
                break;
            }
            __repeat.carry_flow(&mut __was1, &mut __flow1, true);
            __repeat.carry(&mut __rest, &mut rest);
            let Some(layer) = rest.next() else { break };
            __flow1.begin(&__repeat);
            {
                let mut __region = __rt::branch();
                let mut __value = __rt::held("the value");
                let mut __was1 = __rt::held_flow();
                #[allow(unreachable_code, unused_labels)]
                let __result = 'join7: {
                    if __region.test(__flow1.goes_on()) {
                        __region.save_flow(&mut __was1, &__flow1);
                        __region.begin();
                        __region.uses("`layer`", (&&__rt::Probe(&layer)).asks());
                        let __arm = 'rest3: {
                            let __arm: () = {
                                {
                                    let mut __region = __rt::branch();
                                    __region.votes(__vote1);
                                    let mut __value = __rt::held("the value");
                                    let mut __was1 = __rt::held_flow();
                                    #[allow(unreachable_code, unused_labels)]
                                    let __result = 'join6: {
                                        if __region.test(!(__rt::Subject(&x).lt(&10.0))) {
                                            __region.save_flow(&mut __was1, &__flow1);
                                            __region.begin();
                                            let __arm = 'arm4: {
                                                let __arm: () = {
                                                    {
                                                        if __flow1.is_near() {
                                                            break 'repeat2;
                                                        }
                                                        __flow1.leave();
                                                        break 'arm4 ::core::option::Option::None;
                                                    };
                                                };
                                                ::core::option::Option::Some(__arm)
                                            };
                                            <_ as __rt::Carry<
                                                _,
                                            >>::accept(__region.kind(), __arm.as_ref());
                                            __region.first(&mut __value, __arm);
                                            __region.carry_flow(&mut __was1, &mut __flow1);
                                            if __region.is_decided() {
                                                break 'join6 __region.alone(&mut __value);
                                            }
                                            __region.turn();
                                        }
                                        __region.uses("`layer`", (&&__rt::Probe(&layer)).asks());
                                        let mut __arm = 'arm5: {
                                            let __arm: () = {
                                                layer.invoke(__rt::Given { arguments: (&x,) });
                                            };
                                            ::core::option::Option::Some(__arm)
                                        };
                                        __region.second(&mut __value, &mut __arm);
                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                        if __region.is_decided() {
                                            break 'join6 __arm;
                                        }
                                        __region.join();
                                        __region.carry_flow(&mut __was1, &mut __flow1);
                                        __region.value(__value, __arm)
                                    };
                                    match __result {
                                        ::core::option::Option::Some(__arm) => __arm,
                                        ::core::option::Option::None => {
                                            break 'rest3 ::core::option::Option::None;
                                        }
                                    }
                                }
                            };
                            ::core::option::Option::Some(__arm)
                        };
                        <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                        __region.first(&mut __value, __arm);
                        __region.carry_flow(&mut __was1, &mut __flow1);
                        if __region.is_decided() {
                            break 'join7 __region.alone(&mut __value);
                        }
                        __region.turn();
                    }
                    __region.leaves(&__was1, &mut __flow1);
                    let mut __arm = ::core::option::Option::None;
                    __region.second(&mut __value, &mut __arm);
                    __region.carry_flow(&mut __was1, &mut __flow1);
                    if __region.is_decided() {
                        break 'join7 __arm;
                    }
                    __region.join();
                    __region.carry_flow(&mut __was1, &mut __flow1);
                    __region.value(__value, __arm)
                };
                match __result {
                    ::core::option::Option::Some(__arm) => __arm,
                    ::core::option::Option::None => continue 'repeat2,
                }
            }
        }
    }
    x
}
