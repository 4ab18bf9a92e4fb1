import { randomUUID } from 'node:crypto';
import { Column, Entity, ForeignKey, PrimaryColumn, Unique } from 'typeorm';
import {
  bigintTransformer,
  IdColumn,
  type IdOptions,
  uuidTransformer,
  VersionColumn,
} from '../../src/platform/database/statements/columns.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { ResourceKit } from '../../src/platform/resource/resource-kit.js';
import { startApp } from './support/app.js';
import { createTable } from './support/create-table.js';
import { createKey, insertRow } from './support/fixtures.js';

type Id = number | string;
const KINDS = ['integer', 'uuid', 'text'] as const;

/** Creates the table of tags with a kind of ids, and that of the references to them. */
function createTags(type: (typeof KINDS)[number], options: IdOptions, timestamp: number) {
  const [table, joins] = [`${type}_tags`, `post_${type}_tags`];
  @Entity(table)
  class TagEntity {
    @IdColumn(`pk_${table}`, options) id!: Id;
  }
  const transformer = { integer: bigintTransformer, uuid: uuidTransformer, text: undefined }[type];
  const primaryKeyConstraintName = `pk_${joins}`;
  @Entity(joins)
  class PostTagEntity {
    @ForeignKey('posts', { name: `fk_${joins}_post_id`, onDelete: 'CASCADE' })
    @PrimaryColumn('varchar', { name: 'post_id', length: 36, primaryKeyConstraintName })
    postId!: string;
    @ForeignKey(table, { name: `fk_${joins}_tag_id` })
    @PrimaryColumn(type === 'integer' ? 'bigint' : 'varchar', {
      name: 'tag_id',
      primaryKeyConstraintName,
      transformer,
    })
    tagId!: Id;
  }
  const migrations = [
    createTable(TagEntity, timestamp, options),
    createTable(PostTagEntity, timestamp + 100),
  ];
  return { tags: TagEntity, joins: PostTagEntity, migrations };
}

@Entity('posts')
@Unique('uq_posts_title', ['title'])
class PostEntity {
  @IdColumn('pk_posts', { type: 'uuid' }) id!: string;
  @Column('varchar', { length: 50 }) title!: string;
  @Column('simple-json', { nullable: true }) integer!: number[] | null;
  @Column('simple-json', { nullable: true, transformer: uuidTransformer }) uuid!: string[] | null;
  @Column('simple-json', { nullable: true }) text!: string[] | null;
  @Column('simple-json', { nullable: true }) notes!: Record<string, string> | null;
  @VersionColumn() version!: number;
}

const integer = createTags('integer', {}, 1_790_000_002_001);
const uuid = createTags('uuid', { type: 'uuid' }, 1_790_000_002_002);
const text = createTags('text', { type: 'text' }, 1_790_000_002_003);
const all = [integer, uuid, text];

@Feature({
  tag: { name: 'posts', description: 'Posts.' },
  entities: [PostEntity, ...all.flatMap(({ tags, joins }) => [tags, joins])],
  migrations: [
    createTable(PostEntity, 1_790_000_002_000, { type: 'uuid' }),
    ...all.flatMap(({ migrations }) => migrations),
  ],
})
class PostsModule {}

const app = await startApp({ features: [PostsModule] });
afterAll(() => app.stop());
const posts = app.app.get(ResourceKit).resource(app.dataSource.getRepository(PostEntity), {
  toBody: (row) => row,
  joins: { integer: integer.joins, uuid: uuid.joins, text: text.joins },
  paths: { integer: 'post.integer' },
});

const createPost = async (values: object = {}): Promise<PostEntity> =>
  (await posts.create({ title: randomUUID(), ...values })).body;
const readPost = async ({ id }: PostEntity): Promise<PostEntity> => (await posts.read({ id })).body;

describe.each(KINDS)('an array of references to ids of the kind %s', (kind) => {
  const { tags, joins } = { integer, uuid, text }[kind];
  const missing = { integer: 123, uuid: randomUUID(), text: 'Missing' }[kind];
  const path = kind === 'integer' ? 'post.integer' : kind;
  const createTag = (): Promise<Id> => insertRow(app.dataSource, `${kind}_tags`);
  const readJoins = async ({ id }: PostEntity): Promise<unknown[]> =>
    (await app.dataSource.getRepository(joins).findBy({ postId: id })).map(({ tagId }) => tagId);
  /** Expects the references of a post, in their order, and a row of each. */
  async function expectTags(post: PostEntity, ids: Id[] | null): Promise<void> {
    expect((await readPost(post))[kind]).toEqual(ids);
    const joined = await readJoins(post);
    expect([joined.length, new Set(joined)]).toEqual([new Set(ids).size, new Set(ids)]);
  }

  it('is stored with the row, in the order of the client, and replaced or removed with it', async () => {
    const [a, b, c] = [await createTag(), await createTag(), await createTag()];
    const post = await createPost({ [kind]: [b, a] });
    expect(post[kind]).toEqual([b, a]);
    await expectTags(post, [b, a]);
    const { id } = post;
    for (const ids of [[a, c, b], [c, c], [], [a, b], null]) {
      const { body, version } = await posts.patch({ id }, { [kind]: ids });
      expect(body[kind]).toEqual(ids);
      expect((await posts.read({ id })).version).toBe(version);
      await expectTags(post, ids);
    }
    await posts.patch({ id }, { [kind]: [a], notes: { x: 'y' } });
    await posts.patch({ id }, { title: randomUUID(), notes: { x: 'z' } });
    await expectTags(post, [a]);
    await posts.replace({ id }, { title: randomUUID(), [kind]: [b] });
    await expectTags(post, [b]);
    await posts.replace({ id }, { title: randomUUID() });
    await expectTags(post, null);
  });

  it('is rejected with 400 if an id is unknown, and nothing is changed', async () => {
    const tag = await createTag();
    const post = await createPost({ [kind]: [tag] });
    const { id, title } = post;
    const values = { title: randomUUID(), [kind]: [tag, missing] };
    const key = createKey();
    for (const change of [
      () => posts.create(values),
      () => posts.create(values, key),
      () => posts.replace({ id }, values),
      () => posts.patch({ id }, values),
    ])
      await expect(change()).rejects.toMatchObject({
        code: 'VALIDATION_FAILED',
        message: `${path}[1] must reference an existing resource.`,
      });
    await expectTags(post, [tag]);
    expect((await readPost(post)).title).toBe(title);
    expect((await posts.create({ ...values, [kind]: [tag] }, key)).body).toMatchObject({
      [kind]: [tag],
    });
  });

  it('keeps what it refers to from being deleted, until the row is', async () => {
    const id = await createTag();
    const post = await createPost({ [kind]: [id] });
    const repository = app.dataSource.getRepository(tags);
    const resource = app.app.get(ResourceKit).resource(repository, { toBody: (row) => row });
    await expect(resource.delete({ id })).rejects.toMatchObject({ code: 'RESOURCE_IN_USE' });
    await expectTags(post, [id]);
    await posts.delete({ id: post.id });
    expect(await readJoins(post)).toEqual([]);
    expect(await resource.delete({ id })).toEqual({ id });
  });

  it('is created once for each Idempotency-Key, also by concurrent requests', async () => {
    const key = createKey();
    const row = { title: randomUUID(), [kind]: [await createTag()] };
    const results = await Promise.all(Array.from({ length: 8 }, () => posts.create(row, key)));
    expect(key.replays).toBe(7);
    const first = results[0]!;
    for (const result of results) expect(result).toEqual(first);
    expect(await posts.read({ id: first.body.id })).toEqual(first);
    await expectTags(first.body, row[kind] as Id[]);
  });

  it('agrees with its rows after concurrent changes, while what it refers to is deleted', async () => {
    const ids = await Promise.all(Array.from({ length: 6 }, createTag));
    const changed = await Promise.all([createPost(), createPost(), createPost()]);
    const repository = app.dataSource.getRepository(tags);
    const resource = app.app.get(ResourceKit).resource(repository, { toBody: (row) => row });
    const change = (index: number): Promise<unknown> => {
      const [tag, other] = [ids[index % 6]!, ids[(index * 5 + 1) % 6]!];
      if (index % 10 === 9) return resource.delete({ id: tag });
      return posts.patch({ id: changed[index % 3]!.id }, { [kind]: [tag, other] });
    };
    const outcomes: PromiseSettledResult<unknown>[] = [];
    // 12 at a time: on a busy machine, 60 would not all end before their deadline.
    for (let start = 0; start < 60; start += 12) {
      const changes = Array.from({ length: 12 }, (_, index) => change(start + index));
      outcomes.push(...(await Promise.allSettled(changes)));
    }
    const codes = outcomes.map((each) => (each.status === 'fulfilled' ? 'done' : each.reason.code));
    expect(['RESOURCE_IN_USE', 'VALIDATION_FAILED', 'NOT_FOUND', 'done']).toEqual(
      expect.arrayContaining([...new Set(codes)]),
    );
    for (const post of changed) await expectTags(post, (await readPost(post))[kind]);
  });
});
