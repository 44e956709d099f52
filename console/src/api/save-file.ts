import { fetchOk, type RequestOptions } from './client.ts'

/*
 * Saves the answer of a request as a file, with the name that the server gives it. Exports and receipts use it. The browser keeps the
 * bytes, not the page, so a large file does not fill the page's memory.
 */

export async function saveFile(path: string, options: RequestOptions = {}): Promise<string> {
  const response = await fetchOk(path, { ...options, headers: { accept: '*/*' } })
  const [, name = 'collet-export'] =
    /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '') ?? []
  const address = URL.createObjectURL(await response.blob())
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), REVOKE_MS)
  return name
}

/** The browser reads the address after the click. */
const REVOKE_MS = 60_000

/** Saves a signed receipt of a call. With `contents`, the file discloses the input and the outcome. */
export function saveReceipt(record: string, contents: boolean): Promise<string> {
  return saveFile('/admin/receipts', { method: 'POST', body: { records: [record], contents } })
}
