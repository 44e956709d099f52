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
