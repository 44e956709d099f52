/** One promise that every implementation must keep, in a form that any test runner can run. */
export interface ContractCase<Subject> {
  readonly name: string
  run(open: () => Promise<Subject>): Promise<void>
}
