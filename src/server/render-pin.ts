import type { PinDiff, PinView } from '#core/imports/pin-view'
import type { Difference } from '#core/imports/schema-diff'

/** A pinned tool on the wire of operators. */
export function renderPin(view: PinView) {
  const { waiting } = view
  return {
    source: view.source,
    tool: view.tool,
    native_name: view.nativeName,
    state: view.state,
    version: view.version ?? null,
    hash: view.hash ?? null,
    accepted_by: view.acceptedBy ?? null,
    accepted_at: momentOf(view.acceptedAtMs),
    waiting:
      waiting === undefined
        ? null
        : {
            kind: waiting.kind,
            class: waiting.class,
            reasons: waiting.reasons,
            hash: waiting.hash,
            renamed_from: waiting.renamedFrom ?? null,
            seen_at: momentOf(waiting.seenAtMs),
            rejected_by: waiting.rejectedBy ?? null,
          },
  }
}

export function renderPinDiff(diff: PinDiff) {
  return {
    ...renderPin(diff),
    next_version: diff.nextVersion ?? null,
    differences: diff.differences.map(renderDifference),
  }
}

function renderDifference({ where, class: found, says, before, after }: Difference) {
  return {
    where,
    class: found,
    says,
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  }
}

function momentOf(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString()
}
