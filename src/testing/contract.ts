/** One promise every rival must keep, in a form any test runner can run. */
export interface ContractCase<Subject> {
  readonly name: string
  run(open: () => Promise<Subject>): Promise<void>
}
