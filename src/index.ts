export type { ColletConfig } from '#config/collet-config'
export { defineConfig } from '#config/collet-config'
export type { ApprovalFacts } from '#core/approvals/approval-rules'
export type { DefinedTool } from '#core/define-tool'
export { tool } from '#core/define-tool'
export type { ErrorCode, ToolErrorOptions } from '#core/errors'
export { ToolError } from '#core/errors'
export { DefinitionError } from '#core/finding'
export type { JsonObject, JsonValue } from '#core/json'
export type { CallError, Failure, Outcome, Success } from '#core/outcome'
export type { ApprovalState, ApproverDecision } from '#core/ports/approval-store'
export type { Discovery, Invocation, OfferedTool, Source, SourceHealth } from '#core/ports/source'
export type { SourceServices } from '#core/ports/source-services'
export type { Principal } from '#core/principal'
export type { RunEvent } from '#core/runs/run-event'
export type { RunPage } from '#core/runs/run-view'
export { Secret } from '#core/secret'
export type { SessionContext } from '#core/sessions/session-context'
export type { OpenedSession } from '#core/sessions/session-request'
export type { StatefulContext, Tool, ToolContext, ToolPolicy, ToolRequirements } from '#core/tool'
export type { PolicyDefinition, SessionDefinition, ToolDefinition } from '#core/tool-definition'
export type {
  CallStep,
  StepOptions,
  WorkflowContext,
  WorkflowDefinition,
} from '#core/workflow/define-workflow'
export { workflow } from '#core/workflow/define-workflow'
export type {
  GatewayCallOptions,
  GatewayOptions,
  GatewayOutcome,
  GatewayRunOptions,
  GatewaySessionOptions,
  InProcessGateway,
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
