import type { ApprovalRecord } from '#core/ports/approval-store'
import { sealOnce, unseal } from '#store/keys/sealer'

/** Marks what is sealed: reasons of earlier versions are in the clear where a signed chain keeps them from being changed. */
const SEALED = 'sealed:'
const UNREADABLE = '[unreadable]'

/**
 * Reasons of approvers speak about people and customers, so they are sealed wherever they are stored: beside the
 * decision, in the events of a run and in the journal. Each is a text of its own and goes with what holds it.
 */
export class ApprovalReasons {
  readonly #key: Buffer

  constructor(key: Buffer) {
    this.#key = key
  }

  seal(approval: string, reason: string): string {
    return SEALED + sealOnce(this.#key, Buffer.from(reason), placeOf(approval)).toString('base64url')
  }

  /** An event or a fact about an approval as its readers see it; most have no reason, and some one of our own words. */
  openIn<T extends object>(told: T): T {
    if (!('approval' in told && 'reason' in told)) return told
    const { approval, reason } = told
    if (typeof approval !== 'string' || typeof reason !== 'string') return told
    return { ...told, reason: this.#open(approval, reason) }
  }

  openDecisions(approval: ApprovalRecord): ApprovalRecord {
    const decisions = approval.decisions.map((decision) =>
      decision.reason === undefined
        ? decision
        : { ...decision, reason: this.#open(approval.id, decision.reason) },
    )
    return { ...approval, decisions }
  }

  /** One that was changed is told as such: it must not keep anybody from reading the others. */
  #open(approval: string, stored: string): string {
    if (!stored.startsWith(SEALED)) return stored
    try {
      const sealed = Buffer.from(stored.slice(SEALED.length), 'base64url')
      return unseal(this.#key, sealed, placeOf(approval)).toString('utf8')
    } catch {
      return UNREADABLE
    }
  }
}

function placeOf(approval: string): string {
  return JSON.stringify(['approval reason', approval])
}
