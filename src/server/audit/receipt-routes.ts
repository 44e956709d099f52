/**
 * Serves receipts of calls (`POST /admin/receipts`, `GET /admin/export/receipts`) and the keys that sign them. A tenant's auditor gets
 * receipts of that tenant's calls. Each receipt is journaled before it is sent.
 */
import { EXPORT_RECEIPTS, LIST_RECEIPT_KEYS, MAKE_RECEIPTS, ROTATE_RECEIPT_KEY } from '#admin-api/receipts'
import type { Clock } from '#kernel/base/clock'
import type { Principal } from '#kernel/base/principal'
import type { Release } from '#kernel/call/stages'
import type { HttpReply } from '#protocols/http-exchange'
import { type OperatorAccess, visibleTenant } from '#server/admin/access'
import { serveOperation, serveReply, timeOf } from '#server/admin/admin-route'
import { type BaseOf, toCallFilter } from '#server/admin/call-filter'
import { httpFault } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import type { StoredReceiptKey } from '#store/audit/receipt-keys'
import type { CallProof } from '#store/audit/receipts'
import type { Store } from '#store/collet-store'
import { membersOf } from './export-routes.ts'
import { callPages } from './export-rows.ts'
import { type KnownBlock, receiptFile } from './receipt-file.ts'

interface ReceiptRoutesOptions {
  readonly store: Pick<Store, 'receipts' | 'receiptKeys' | 'blocks' | 'journal' | 'list' | 'findByRecord'>
  readonly clock: Clock
  readonly baseOf?: BaseOf
  publicUrl(): string
  /** Counts a request that is held open; throws if there are too many. */
  enter(principal: Principal): Release
}

export function createReceiptRoutes(
  access: OperatorAccess,
  { store, clock, baseOf, publicUrl, enter }: ReceiptRoutesOptions,
): readonly ServerRoute[] {
  const { receipts, receiptKeys, blocks } = store
  const send = async (
    { id: by }: Principal,
    { proofs, linkedTo, name }: ReceiptsToSend,
    release: Release,
  ): Promise<HttpReply> => {
    const atMs = clock.nowMs()
    const signer = await receiptKeys.signer({ by, atMs })
    return {
      status: 200,
      headers: {
        'content-type': 'application/jsonl; charset=utf-8',
        'content-disposition': `attachment; filename="${name}"`,
      },
      async *body(ended) {
        try {
          yield* receiptFile(proofs(ended), { issuer: publicUrl(), atMs, signer, blocks, linkedTo })
        } finally {
          release()
        }
      },
    }
  }
  /** Releases the request if it fails before its reply. */
  const held = async (principal: Principal, work: (release: Release) => Promise<HttpReply>) => {
    const release = enter(principal)
    try {
      return await work(release)
    } catch (error) {
      release()
      throw error
    }
  }
  return [
    serveReply(access, MAKE_RECEIPTS, async ({ principal, body }) => {
      const { contents: withContents, linked_to: linkedTo } = body
      if (withContents) access.requireScope(principal, 'calls:read')
      const tenant = visibleTenant(principal)
      const records = [...new Set(body.records)]
      for (const record of records) {
        const call = await store.findByRecord(record)
        if (call === undefined || (tenant !== undefined && call.tenant !== tenant))
          throw httpFault(404, `There is no call ${record}.`)
      }
      return await held(principal, async (release) => {
        const proven: CallProof[] = []
        for (const record of records) {
          const proof = await receipts.prove({ record, withContents }, clock.nowMs())
          if (proof === undefined) throw httpFault(404, `The journal no longer contains call ${record}.`)
          proven.push(proof)
        }
        for (const record of records)
          await receipts.note({ record, withContents, by: principal.id, atMs: clock.nowMs() })
        const name = records.length === 1 ? `collet-receipt-${records[0]}.jsonl` : 'collet-receipts.jsonl'
        return await send(principal, { proofs: () => eachOf(proven), linkedTo, name }, release)
      })
    }),
    serveReply(access, EXPORT_RECEIPTS, async ({ principal, query }) => {
      const tenant = visibleTenant(principal)
      const filter = toCallFilter(query, clock.nowMs(), baseOf)
      return await held(principal, async (release) => {
        await store.journal.recordExport({
          ...{ what: 'receipts', format: 'jsonl', filter: membersOf(query) },
          ...{ by: principal.id, tenant, atMs: clock.nowMs() },
        })
        const found = { ...filter, tenant: tenant ?? filter.tenant }
        return await send(
          principal,
          {
            async *proofs(ended) {
              for await (const page of callPages(store, found, ended))
                for (const { record } of page) {
                  if (ended.aborted) return
                  const proof = await receipts.prove({ record, withContents: false }, clock.nowMs())
                  if (proof !== undefined) yield proof
                }
            },
            ...{ linkedTo: [], name: 'collet-receipts.jsonl' },
          },
          release,
        )
      })
    }),
    serveOperation(access, LIST_RECEIPT_KEYS, async () => ({ keys: await listKeys(store) })),
    serveOperation(access, ROTATE_RECEIPT_KEY, async ({ principal }) => {
      await receiptKeys.rotate({ by: principal.id, atMs: clock.nowMs() })
      return { keys: await listKeys(store) }
    }),
  ]
}

interface ReceiptsToSend {
  proofs(ended: AbortSignal): AsyncIterable<CallProof>
  readonly linkedTo: readonly KnownBlock[]
  /** Name of the file. */
  readonly name: string
}

async function* eachOf<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  yield* items
}

/** The public part of the keys, for everyone. */
export async function listKeys({ receiptKeys }: Pick<Store, 'receiptKeys'>) {
  return (await receiptKeys.list()).map(renderKey)
}

function renderKey({ id, public_key, createdAtMs, retiredAtMs }: StoredReceiptKey) {
  return {
    ...({ id, algorithm: 'Ed25519', public_key } as const),
    created_at: timeOf(createdAtMs),
    retired_at: timeOf(retiredAtMs),
  }
}
