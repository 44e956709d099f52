/** The bytes of a body, or `undefined` when there are more than allowed; the rest is then not read. */
export async function readBounded(response: Response, mostBytes: number): Promise<Buffer | undefined> {
  const { bytes, isWhole } = await readStart(response, mostBytes)
  return isWhole ? bytes : undefined
}

/** The first bytes of a body. */
export async function readStart(
  response: Response,
  mostBytes: number,
): Promise<{ readonly bytes: Buffer; readonly isWhole: boolean }> {
  if (response.body === null) return { bytes: Buffer.alloc(0), isWhole: true }
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop early cancels the stream.
  for await (const chunk of response.body) {
    chunks.push(chunk)
    length += chunk.length
    if (length > mostBytes) return { bytes: Buffer.concat(chunks).subarray(0, mostBytes), isWhole: false }
  }
  return { bytes: Buffer.concat(chunks), isWhole: true }
}
