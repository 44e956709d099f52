import { randomUUID } from 'node:crypto'
import { openStore } from '#store/stores'
import { callNow, receiptsOf } from '../contracts/receipt-store-contract.ts'
import { runThrough } from '../contracts/samples.ts'

/** A server that makes calls, blocks and receipts until it is killed. It prints each receipt file as one line of JSON. */
const [url = '', masterKey = ''] = process.argv.slice(2)
const store = await openStore(url, {
  ...{ dataFolder: '.', masterKey: Buffer.from(masterKey, 'base64'), mode: 'server' },
})
async function makeBlocks(): Promise<never> {
  for (;;) if (!(await store.blocks.makeSome(Date.now()))) await new Promise(setImmediate)
}
async function makeCalls(): Promise<never> {
  for (;;) {
    const records = Array.from({ length: 3 }, () => randomUUID())
    await Promise.all(records.map((record) => runThrough(store, callNow({ record, callId: record }))))
    const file = await receiptsOf(store, records)
    process.stdout.write(`${JSON.stringify({ records, file })}\n`)
  }
}
await Promise.all([makeBlocks(), makeCalls()])
