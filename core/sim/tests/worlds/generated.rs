// result_reaches_its_call: mark-0-1: the result has Some("mark-0-0")
#[test]
fn world_of_seed_0_keeps_its_invariants() {
    let plan = mcp_sim::Plan::new()
        .clients(3)
        .steps(200)
        .delay(40)
        .cuts(true)
        .reset(2)
        .death(3)
        .stall(4)
        .hostile(6)
        .clock_jump(1)
        .silence(8)
        .changes(10)
        .questions(5)
        .tasks(4);
    let steps = vec![
        vec![72],
        vec![66],
    ];
    let decisions = mcp_sim::Decisions { steps };
    let report = mcp_sim::World::replay(decisions, plan, cached()).run();
    assert_eq!(report.violation, None);
}
