fn handed_on(y: &mut Tensor, x: &Tensor) {
    use __rt::Compare as _;
    let t = (&mut *y, 1);
    {
        let mut __region = __rt::branch();
        let mut __value = __rt::held("the value");
        let mut __t_0 = __rt::held("`t.0`");
        <_ as __rt::Carry<
            _,
        >>::accept(__region.kind(), ::core::option::Option::Some(&(*t.0)));
        let mut __y = __rt::held("`y`");
        <_ as __rt::Carry<
            _,
        >>::accept(__region.kind(), ::core::option::Option::Some(&(*y)));
        #[allow(unreachable_code, unused_labels)]
        let __result = 'join5: {
            if __region.test(__rt::Subject(&x).gt(&1.0)) {
                __region.save(&mut __t_0, &(*t.0));
                __region.save(&mut __y, &(*y));
                __region.begin();
                let __arm = {
                    put(&mut *t.0, x);
                    apply({
                        let y = &mut *y;
                        move || put(&mut *y, x)
                    });
                };
                let __arm = ::core::option::Option::Some(__arm);
                <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                __region.first(&mut __value, __arm);
                __region.carry(&mut __t_0, &mut (*t.0));
                __region.carry(&mut __y, &mut (*y));
                if __region.is_decided() {
                    break 'join5 __region.alone(&mut __value);
                }
                __region.turn();
            }
            let __arm = {};
            let mut __arm = ::core::option::Option::Some(
                __rt::SecondArm {
                    first: &__value,
                    value: __arm,
                }
                    .value,
            );
            __region.second(&mut __value, &mut __arm);
            __region.carry(&mut __t_0, &mut (*t.0));
            __region.carry(&mut __y, &mut (*y));
            if __region.is_decided() {
                break 'join5 __arm;
            }
            __region.join();
            __region.carry(&mut __t_0, &mut (*t.0));
            __region.carry(&mut __y, &mut (*y));
            __region.value(__value, __arm)
        };
        __rt::branch_value(__result)
    }
}
fn items(all: &mut Vec<Tensor>, x: &Tensor) {
    use __rt::Compare as _;
    for (i, t) in all.iter_mut().enumerate() {
        {
            let mut __region = __rt::branch();
            let mut __t = __rt::held("`t`");
            <_ as __rt::Carry<
                _,
            >>::accept(__region.kind(), ::core::option::Option::Some(&(*t)));
            #[allow(unreachable_code)]
            'join5: {
                if __region.test(__rt::Subject(&&*t).gt(&1.0)) {
                    __region.save(&mut __t, &(*t));
                    __region.begin();
                    {
                        put(&mut *t, &(x * i));
                    }
                    __region.carry(&mut __t, &mut (*t));
                    if __region.is_decided() {
                        break 'join5;
                    }
                    __region.turn();
                }
                __region.carry(&mut __t, &mut (*t));
                if __region.is_decided() {
                    break 'join5;
                }
                __region.join();
                __region.carry(&mut __t, &mut (*t));
            }
        }
    }
}
fn right_side(y: &mut Tensor, x: &Tensor) -> Tensor {
    use __rt::Compare as _;
    {
        let mut __region = __rt::branch();
        let mut __value = __rt::held("the value");
        let mut __y = __rt::held("`y`");
        <_ as __rt::Carry<
            _,
        >>::accept(__region.kind(), ::core::option::Option::Some(&(*y)));
        #[allow(unreachable_code, unused_labels)]
        let __result = 'join4: {
            if __region.test(__rt::Subject(&x).gt(&1.0)) {
                __region.save(&mut __y, &(*y));
                __region.begin();
                let __arm: Tensor = { __rt::truth(&__region, yes(&mut *y, x)) };
                let __arm = ::core::option::Option::Some(__arm);
                <_ as __rt::Carry<_>>::accept(__region.kind(), __arm.as_ref());
                __region.first(&mut __value, __arm);
                __region.carry(&mut __y, &mut (*y));
                if __region.is_decided() {
                    break 'join4 __region.alone(&mut __value);
                }
                __region.turn();
            }
            let __arm: Tensor = { __rt::known(false) };
            let mut __arm = ::core::option::Option::Some(__arm);
            __region.second(&mut __value, &mut __arm);
            __region.carry(&mut __y, &mut (*y));
            if __region.is_decided() {
                break 'join4 __arm;
            }
            __region.join();
            __region.carry(&mut __y, &mut (*y));
            __region.value(__value, __arm)
        };
        __rt::branch_value(__result)
    }
}
fn asked(x: &Tensor, cache: &Cache) {
    use __rt::Compare as _;
    use __rt::Iterate as _;
    use __rt::reach::*;
    let w = pick(x);
    {
        let mut __region = __rt::branch();
        #[allow(unreachable_code)]
        'join4: {
            if __region.test(__rt::Subject(&x).gt(&1.0)) {
                __region.begin();
                __region.uses("`w`", (&&&&__rt::Probe(&w)).hands());
                __region.uses("`cache.best`", (&&__rt::Probe(&cache.best)).asks());
                {
                    put(w, x);
                    cache.best.set(1);
                }
                if __region.is_decided() {
                    break 'join4;
                }
                __region.turn();
            }
            if __region.is_decided() {
                break 'join4;
            }
            __region.join();
        }
    }
    {
        match __rt::Over(ms::range(0, 3)).iterate() {
            mut __repeat => {
                'repeat5: loop {
                    __repeat.head();
                    if __repeat.is_over() {
                        break;
                    }
                    let ::core::option::Option::Some(_) = __repeat.next() else { break };
                    __repeat.uses("`w`", (&&__rt::Probe(&w)).asks());
                    {
                        w.step(x);
                    }
                }
            }
        }
    }
}
