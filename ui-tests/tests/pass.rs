//! Runs the programs of `pass/`, as modules of one executable.

use std::fs;

/// The only program that needs a separate crate root, because it renames the library.
const ALONE: &str = "other_crate_name";

// Some programs show forms that rustfmt would replace.
#[rustfmt::skip]
#[path = "../pass"]
#[allow(clippy::all, clippy::unwrap_used, dead_code, reason = "programs show what may be written")]
mod pass {
    mod arms_of_one_assignment;
    mod assertions;
    mod attribute_paths;
    mod both_ways_are_traced;
    mod cell_by_hand;
    mod cell_fields;
    mod cell_generics;
    mod cell_in_two_places;
    mod cell_lists_and_sequences;
    mod cell_methods;
    mod cell_of_several_arguments;
    mod changed_field;
    mod closures;
    mod closures_that_decide;
    mod common;
    mod comparisons_of_every_mix;
    mod custom_ops;
    mod donated_arguments;
    mod dynamic_scalars;
    mod early_returns;
    mod frozen_and_skipped_fields;
    mod generic_decisions;
    mod generics_and_traits;
    mod heads_of_host_loops;
    mod host_control_flow;
    mod host_errors_and_let_else;
    mod host_loops_end;
    mod host_results_in_decisions;
    mod jit_class;
    mod jit_functions;
    mod jit_macro;
    mod jumps_are_written;
    mod labelled_blocks;
    mod lazy_inline;
    mod made_inside;
    mod match_on_literals;
    mod match_on_tensors;
    mod moves_and_jumps;
    mod mutable_arguments;
    mod nested_functions_and_closures;
    mod no_inline;
    mod open_operands;
    mod parameters_are_slots;
    mod parts_are_called;
    mod patterns_as_parameters;
    mod patterns_in_loops;
    mod pure_and_retrace;
    mod recursion_and_nesting;
    mod references_in_conditions;
    mod references_to_arguments;
    mod references_to_parts;
    mod refusals_end_the_call;
    mod results;
    mod static_derive;
    mod statics;
    mod symbolic_sizes;
    mod taken_in_decisions;
    mod tensor_if;
    mod tensor_if_parameters;
    mod tensor_logic;
    mod tensor_loops;
    mod tensors_decide_eagerly;
    mod traits_and_associated_items;
    mod tree_containers;
    mod tree_derive;
    mod tree_tuples_and_arrays;
    mod trees_and_statics;
    mod try_call;
}

#[test]
fn every_program_is_a_module() {
    let text = fs::read_to_string("tests/pass.rs").expect("this file");
    let programs = fs::read_dir("pass").expect("the folder of programs").map(|it| it.expect("a readable entry").path());
    for program in programs.filter(|it| it.extension().is_some_and(|it| it == "rs")) {
        let name = program.file_stem().expect("a file").to_string_lossy();
        assert!(name == ALONE || text.contains(&format!("    mod {name};\n")), "{name} is no module of this file");
    }
}
