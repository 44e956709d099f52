export type { ColletConfig } from '#config/config'
export { defineConfig } from '#config/config'
export type { ApprovalFacts } from '#core/approvals/approvals'
export type { CallError, Failure, Outcome, Success } from '#core/call'
export type { OpenedSession } from '#core/calls/stages'
export type { ErrorCode, ToolErrorOptions } from '#core/errors'
export { DefinitionError, ToolError } from '#core/errors'
export type { JsonObject, JsonValue } from '#core/json'
export type { ApprovalState, ApproverDecision } from '#core/ports/approval-store'
export type {
  Discovery,
  Invocation,
  OfferedTool,
  Source,
  SourceHealth,
  SourceServices,
} from '#core/ports/source'
export type { Principal } from '#core/principal'
export type { RunEvent } from '#core/runs/events'
export type { RunPage } from '#core/runs/runs'
export { Secret } from '#core/secret'
export type {
  PolicyDefinition,
  SessionContext,
  StatefulContext,
  Tool,
  ToolContext,
  ToolPolicy,
  ToolRequirements,
} from '#core/tool'
export type {
  CallStep,
  ContentBlock,
  DefinedTool,
  SessionDefinition,
  StepOptions,
  ToolDefinition,
  WorkflowContext,
  WorkflowDefinition,
} from '#core/tools/define'
export { content, tool, workflow } from '#core/tools/define'
export type {
  Gateway,
  GatewayCallOptions,
  GatewayOptions,
  GatewayOutcome,
  GatewayRunOptions,
  GatewaySessionOptions,
  ServeOptions,
} from '#server/create-gateway'
export { createGateway, serve } from '#server/create-gateway'
export type {
  GatewayApproval,
  GatewayApprovalFilter,
  GatewayApprovals,
  GatewayDecision,
} from '#server/gateway-approvals'
export type { RunningServer } from '#server/start-server'
