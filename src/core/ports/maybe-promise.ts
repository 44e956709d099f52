/** What a store that is near gives at once and one that is far gives later. */
export type MaybePromise<T> = T | Promise<T>
