export { sampleTool } from './samples.ts'
export { contextFor, SOURCE_CONTRACT, type SourceUnderTest } from './source-contract.ts'
export { STORE_CONTRACT } from './store-contract.ts'
export {
  ALICE,
  callRequest,
  errorOf,
  FakeClock,
  faultyStore,
  gist,
  openTestGateway,
  type StoreMethod,
} from './test-gateway.ts'
export { type TestLogLine, type TestToolOptions, type TestToolResult, testTool } from './test-tool.ts'

/** One promise every rival must keep, in a form any test runner can run. */
export interface ContractCase<Subject> {
  readonly name: string
  run(open: () => Promise<Subject>): Promise<void>
}
