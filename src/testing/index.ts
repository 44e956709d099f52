/**
 * The public entry point `collet/testing`: `testTool` for authors of tools, and the parts that tests of this repository
 * use to run a gateway in the process.
 */
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
