import { mayNameUser } from '#core/credentials/credentials'
import { fault, type InputIssue, issuePhrase, type ToolError } from '#core/errors'
import { type ToolRef, writeToolRef } from '#core/ids'
import { isJsonObject, type JsonValue } from '#core/json'
import { nearestName } from '#core/nearest-name'
import type { CallRecord } from '#core/ports/store'
import type { Principal } from '#core/principal'
import type { Hooks } from '#core/runtime'
import type { Tool } from '#core/tool'
import type { Catalog } from '#core/tools/catalog'
import type { CallServices } from './gateway.ts'
import type { IdentifiedCall } from './identity.ts'

/**
 * T-27: whether the user a caller names is proven: the subject of its own token, or named by a credential that may assert
 * users, or vouched for by the operator's hook. The hook's `false` refuses; without a hook the rest is the caller's word.
 */
export async function proveUser(
  { bindUser }: Hooks,
  principal: Principal,
  userId: string | undefined,
): Promise<boolean> {
  if (userId === undefined || userId === '') return false
  if (bindUser === undefined) return mayNameUser(principal, userId)
  if (await bindUser(principal, userId)) return true
  throw fault('not_authorized', 'This credential may not act for that user id.')
}

/** What a call that names a user without proof is told by a tool that needs one: nothing it could add would help. */
export function unprovenUser({ name }: Pick<Tool, 'name'>): ToolError {
  return fault(
    'not_authorized',
    `${name} needs a user id that is proven, and this credential cannot prove the one it names. Nothing was run.`,
    {
      developerMessage:
        "Call with the user's own token (its `sub` is the user id), or with a credential that has the scope users:assert.",
    },
  )
}

/** OTC-80: wire check first, then the schema library's own parse, whose result `run` gets. */
export async function validateInput(tool: Tool, input: JsonValue): Promise<unknown> {
  if (!isJsonObject(input)) {
    throw fault('input_invalid', `The input of ${tool.id} must be a JSON object of parameters.`)
  }
  const issues = tool.checkInput(input)
  if (issues.length > 0) throw invalidInput(tool, issues)
  const parsed = tool.parseInput(input)
  const result = parsed instanceof Promise ? await parsed : parsed
  if (!result.ok) throw invalidInput(tool, result.issues)
  return result.input
}

function invalidInput(tool: Tool, issues: readonly InputIssue[]): ToolError {
  const said = issues.slice(0, 5).map(issuePhrase)
  const more = issues.length > said.length ? ` (and ${issues.length - said.length} more)` : ''
  return fault('input_invalid', `The input of ${tool.id} is invalid: ${said.join('; ')}${more}.`, { issues })
}

/**
 * Finds the tool in the principal's own catalog, so that hidden and unknown take the same path (rule 2). A call
 * that runs again uses exactly the version and definition it was claimed with (rule 5).
 */
export function resolveTool(
  services: CallServices,
  call: IdentifiedCall,
  seen: CallRecord | undefined,
): Tool {
  const catalog = services.registry.catalogFor(call.principal)
  const tool = seen === undefined ? catalog.resolve(call.request.tool) : catalog.get(seen.tool)
  if (seen === undefined) {
    if (tool === undefined) throw toolNotFound(call, suggestTool(catalog, call.request.tool))
    // What the workflow's claim pins, and nothing else (rule 31).
    if (call.step !== undefined && call.step.definitionHash !== tool.definitionHash) throw gone(tool.id)
    return tool
  }
  if (tool?.definitionHash === seen.definitionHash) return tool
  if (tool === undefined) throw gone(seen.tool)
  // A workflow that is put away is parked too, but its steps are not asked about in its name.
  const isAsked = seen.state === 'parked' && seen.waitsFor === undefined
  throw isAsked ? changedSinceAsked(seen.tool) : changedSinceBegun(seen)
}

/** A yes is for the definition that was asked about, and that one will not be served again (rule 21). */
function changedSinceAsked(id: string): ToolError {
  return fault(
    'approval_rejected',
    `The definition of ${id} changed since this call was asked about, so no approval is for it any more. Nothing was run. Make a new call, with a new call id.`,
  )
}

/** What began with another definition goes on with that one or not at all (rule 5); an operator may serve it again. */
function changedSinceBegun({ tool, resumable }: CallRecord): ToolError {
  const kept = resumable ? ' Its finished steps are kept.' : ''
  return fault(
    'not_ready',
    `The definition of ${tool} changed since this call began, and a call goes on only with the one it began with.${kept} Repeat it once that definition is served again, or make a new call, with a new call id, which begins anew.`,
    { retryAfterMs: 5_000 },
  )
}

function gone(id: string): ToolError {
  return fault(
    'not_ready',
    `${id}, which this call began with, is not served here right now. Try again later.`,
    {
      retryAfterMs: 5_000,
    },
  )
}

function toolNotFound({ request }: IdentifiedCall, nextStep: string | undefined): ToolError {
  const message = `Tool '${writeToolRef(request.tool)}' was not found.`
  if (nextStep !== undefined) return fault('tool_not_found', `${message} ${nextStep}`, { nextStep })
  return fault('tool_not_found', `${message} List the tools to see what is served.`)
}

const MOST_COMPARED = 2_000

/** The next step for a caller that missed: another version, or a name that looks alike. From its own catalog only (rule 2). */
function suggestTool(catalog: Catalog, asked: ToolRef): string | undefined {
  const versions = catalog.versionsOf(asked.base)
  if (versions.length > 0) {
    return `Versions served: ${versions.map((tool) => tool.parts.version).join(', ')}.`
  }
  const near = nearestTool(catalog, asked)
  return near === undefined ? undefined : `Did you mean '${near}'?`
}

/** In the spelling that was asked in. */
function nearestTool(catalog: Catalog, { base, isOtherName }: ToolRef): string | undefined {
  if (isOtherName === undefined) return nearestName(base, catalog.bases().slice(0, MOST_COMPARED))
  const spell = base.includes(':') ? ({ catalogId }: Tool) => catalogId : ({ name }: Tool) => name
  return nearestName(base, catalog.latest().slice(0, MOST_COMPARED).map(spell))
}
