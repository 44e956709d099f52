/**
 * The exports of the package: what authors of tools, prompts, resources and skills import, and the embedded gateway.
 * `test/exports.test.ts` compares this list with the documented one.
 */

export { type ColletConfig, defineConfig } from '#config/config'
export type { Complete, EntryPolicy, Icon } from '#entries/entry-definition'
export { type PromptDefinition, type PromptMessage, type PromptResult, prompt } from '#entries/prompt'
export {
  type ResourceContent,
  type ResourceDefinition,
  type ResourceResult,
  resource,
  resourceChanged,
} from '#entries/resource'
export { type SkillDefinition, skill } from '#entries/skill'
export type { ApprovalState, ApproverDecision } from '#kernel/approval/approval'
export type { ApprovalFacts } from '#kernel/approval/approvals'
export { DefinitionError, type ErrorCode, ToolError, type ToolErrorOptions } from '#kernel/base/errors'
export type { JsonObject, JsonValue } from '#kernel/base/json'
export type { Principal } from '#kernel/base/principal'
export { Secret } from '#kernel/base/secret'
export type { CallError, Failure, Outcome, Success } from '#kernel/call/call'
export type { OpenedSession } from '#kernel/call/stages'
export type { RunEvent } from '#kernel/run/events'
export type { RunPage } from '#kernel/run/runs'
export type {
  CallStep,
  ContentBlock,
  DefinedTool,
  SessionDefinition,
  StepOptions,
  ToolDefinition,
  WorkflowContext,
  WorkflowDefinition,
} from '#kernel/tool/define'
export { content, tool, workflow } from '#kernel/tool/define'
export type {
  PolicyDefinition,
  SessionContext,
  StatefulContext,
  Tool,
  ToolContext,
  ToolPolicy,
  ToolRequirements,
} from '#kernel/tool/tool'
export type {
  Gateway,
  GatewayCallOptions,
  GatewayOptions,
  GatewayOutcome,
  GatewayRunOptions,
  GatewaySessionOptions,
  ServeOptions,
  TypedGateway,
} from '#server/create-gateway'
export { createGateway, serve } from '#server/create-gateway'
export type {
  GatewayApproval,
  GatewayApprovalFilter,
  GatewayApprovals,
  GatewayDecision,
} from '#server/gateway-approvals'
export type { RunningServer } from '#server/running-server'
export type {
  Discovery,
  Invocation,
  OfferedTool,
  Source,
  SourceHealth,
  SourceServices,
} from '#sources/kit/source'
