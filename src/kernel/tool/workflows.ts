import type { Finding, Report } from '#kernel/base/errors'
import { definitionHash } from '#kernel/base/hash'
import { byVersion, LATEST, parseToolName, plainVersion } from '#kernel/base/ids'
import { didYouMean } from '#kernel/base/nearest-name'
import { checkTogether } from './policy.ts'
import { sharedNameHint } from './shared-names.ts'
import {
  type Egress,
  effectiveApproval,
  needsCredential,
  POLICY_FIELDS,
  type SafetyTier,
  type Tool,
  type ToolPolicy,
  type WorkflowStep,
} from './tool.ts'

/**
 * Derives a workflow's properties from its steps: its tier and egress are the worst among the steps, its scopes include theirs,
 * and its digest covers their digests, so that a claim pins them too (rule 31). The registry resolves workflows again whenever
 * tools change. A workflow is served only if every tool that it uses is served.
 */

/** Limit for workflows inside workflows. */
export const MAX_DEPTH = 8

export interface ResolvedWorkflows {
  /** The given tools in their order; each workflow has its steps, or is left out. */
  readonly tools: readonly Tool[]
  readonly findings: readonly Finding[]
  /** Workflows that use tools that are not served, by id, with the missing names. */
  readonly waiting: ReadonlyMap<string, readonly string[]>
}

export function resolveWorkflows(tools: readonly Tool[]): ResolvedWorkflows {
  if (!tools.some(({ workflow }) => workflow !== undefined))
    return { tools, findings: [], waiting: new Map() }
  const resolver = new Resolver(tools)
  return {
    tools: tools.flatMap((tool) => resolver.resolve(tool) ?? []),
    findings: resolver.findings,
    waiting: resolver.waiting,
  }
}

class Resolver {
  readonly findings: Finding[] = []
  readonly waiting = new Map<string, readonly string[]>()
  /** Versions of each tool, oldest first, by all its names. */
  readonly #byName: ReadonlyMap<string, readonly Tool[]>
  readonly #done = new Map<Tool, Tool | undefined>()
  readonly #trail: Tool[] = []

  constructor(tools: readonly Tool[]) {
    const byName = new Map<string, readonly Tool[]>()
    for (const [base, all] of Map.groupBy(tools, ({ parts }) => parts.base)) {
      byName.set(base, all.toSorted(byVersion))
    }
    for (const key of ['name', 'catalogId'] as const) {
      for (const tool of tools) {
        const versions = byName.get(tool.parts.base)
        if (versions !== undefined && !byName.has(tool[key])) byName.set(tool[key], versions)
      }
    }
    this.#byName = byName
  }

  /** Returns the tool with its steps; `undefined` if it cannot be served. */
  resolve(tool: Tool): Tool | undefined {
    if (tool.workflow === undefined) return tool
    if (this.#done.has(tool)) return this.#done.get(tool)
    this.#trail.push(tool)
    const resolved = this.#make(tool, tool.workflow)
    this.#trail.pop()
    this.#done.set(tool, resolved)
    return resolved
  }

  #make(tool: Tool, workflow: NonNullable<Tool['workflow']>): Tool | undefined {
    const report: Report = (where, problem, fix) =>
      void this.findings.push({ toolId: tool.id, where, problem, fix })
    const before = this.findings.length
    const missing: string[] = []
    const steps: Tool[] = []
    for (const ref of workflow.uses) {
      const used = this.#find(ref)
      if (used === undefined) {
        missing.push(ref)
        continue
      }
      if (used.entry !== undefined) {
        const problem = `"${used.id}" is a ${used.entry.kind}, which no workflow can call.`
        report('uses', problem, 'Name tools only.')
        continue
      }
      if (this.#isCircular(used, report)) continue
      const step = this.resolve(used)
      if (step === undefined) missing.push(...(this.waiting.get(used.id) ?? []))
      else if (step.policy.safetyTier === 'exec') refuseExec(step, report)
      else steps.push(step)
    }
    if (missing.length > 0) this.waiting.set(tool.id, missing)
    const depth = 1 + Math.max(0, ...steps.map((step) => step.workflow?.depth ?? 0))
    if (depth > MAX_DEPTH) {
      const problem = `Workflows are nested ${depth} levels deep here; the maximum is ${MAX_DEPTH}.`
      report('uses', problem, 'Call the tools of an inner workflow directly.')
    }
    const policy = policyOf(workflow.own.policy, steps)
    checkTogether(policy, report)
    if (this.findings.length > before || missing.length > 0) return undefined
    return withSteps(tool, { ...workflow, depth }, policy, steps)
  }

  #find(ref: string): Tool | undefined {
    const { base, version } = parseToolName(ref) ?? { base: ref, version: LATEST }
    const versions = this.#byName.get(base) ?? []
    if (version === LATEST) return versions.at(-1)
    return versions.find(({ parts }) => plainVersion(parts.version) === version)
  }

  #isCircular(used: Tool, report: Report): boolean {
    const start = this.#trail.indexOf(used)
    if (start === -1) return false
    const circle = [...this.#trail.slice(start), used].map(({ id }) => id).join(' → ')
    report('uses', `Calls itself: ${circle}.`, 'A workflow must not be among its own steps.')
    return true
  }
}

/** A tool that runs commands must be called under its own name (OWP-31). */
function refuseExec(step: Tool, report: Report): void {
  const problem = `"${step.id}" has the tier \`exec\`, which a workflow cannot have.`
  report('uses', problem, 'Let the agent call this tool directly, so that it sees what it calls.')
}

/** Findings for names in `uses` that no tool has. */
export function missingUse(
  { id }: Pick<Tool, 'id'>,
  missing: readonly string[],
  tools: readonly Tool[],
): readonly Finding[] {
  const ids = tools.flatMap(({ id: full, parts }) => [full, parts.base])
  const others = tools.flatMap(({ name, catalogId }) => [name, catalogId])
  return missing.map((ref) => {
    const { base, isOtherName } = parseToolName(ref) ?? { base: ref }
    const shared = sharedNameHint(base, tools)
    const meant = shared === undefined ? didYouMean(ref, isOtherName ? others : ids) : ` ${shared}`
    return {
      toolId: id,
      where: 'uses',
      problem: `No tool is called "${ref}".${meant}`,
      fix: 'Add that tool to `tools`, or name one that is served.',
    }
  })
}

function policyOf(own: ToolPolicy, steps: readonly Tool[]): ToolPolicy {
  const policies = steps.map(({ policy }) => policy)
  const { egress: _own, ...rest } = own
  const egress = worstEgress(policies.map((policy) => policy.egress))
  return Object.freeze({
    ...rest,
    safetyTier: worstTier(policies.map((policy) => policy.safetyTier)),
    ...(egress === undefined ? {} : { egress }),
    // Every step is a call of the same principal, which must hold the scopes of each (OWP-34).
    scopes: Object.freeze([...new Set([...own.scopes, ...policies.flatMap(({ scopes }) => scopes)])]),
  })
}

function withSteps(
  tool: Tool,
  workflow: NonNullable<Tool['workflow']>,
  policy: ToolPolicy,
  used: readonly Tool[],
): Tool {
  const steps = new Map(used.map((step) => [step.id, stepOf(step)]))
  const { cost: _cost, tenants: _tenants, modelBytes: _modelBytes, ...promised } = policy
  const pinned = [...steps.values()].map((step) => [step.id, step.definitionHash])
  const digest = definitionHash({ own: workflow.own.definitionHash, policy: promised, steps: pinned })
  // An unchanged workflow stays the same object, because catalogs are compared by object identity.
  if (tool.workflow?.steps !== undefined && tool.definitionHash === digest) return tool
  return Object.freeze({
    ...tool,
    policy,
    workflow: Object.freeze({ ...workflow, steps }),
    definitionHash: digest,
  })
}

function stepOf(step: Tool): WorkflowStep {
  return {
    id: step.id,
    names: [step.parts.base, step.name, step.catalogId],
    definitionHash: step.definitionHash,
    mayNeedApproval: effectiveApproval(step) !== 'never',
    needsCredential: needsCredential(step),
  }
}

function worstTier(tiers: readonly SafetyTier[]): SafetyTier {
  return POLICY_FIELDS.safetyTier.choices.findLast((tier) => tiers.includes(tier)) ?? 'pure'
}

/** Ranks egress by how far it reaches; a tool with an undeclared egress may reach anything that the host does not own. */
const REACH = {
  none: 0,
  'safe-fetch': 1,
  'host-mediated': 2,
  undeclared: 3,
  'host-owned': 4,
} satisfies Record<Egress | 'undeclared', number>

/** The egress that reaches furthest; `undefined` if that is an undeclared egress (OWP-37). */
function worstEgress(all: readonly (Egress | undefined)[]): Egress | undefined {
  const reach = (egress: Egress | undefined) => REACH[egress ?? 'undeclared']
  return all.reduce((worst, egress) => (reach(egress) > reach(worst) ? egress : worst), 'none')
}
