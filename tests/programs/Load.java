// Twelve threads whose deflaters and direct buffers take native memory, which malloc serves.
import java.nio.ByteBuffer;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.zip.Deflater;

public class Load {
    static final int THREADS = 12;
    static final boolean STANDS_STILL = System.getenv("STANDS_STILL") != null;
    static final CountDownLatch ready = new CountDownLatch(THREADS);

    static void churn(int number) {
        Random random = new Random(number);
        ByteBuffer[] kept = new ByteBuffer[40];
        byte[] input = new byte[20000], output = new byte[20000];
        for (long round = 0; ; round++) {
            Deflater deflater = new Deflater();
            deflater.setInput(input);
            deflater.finish();
            deflater.deflate(output);
            deflater.end();
            kept[random.nextInt(kept.length)] = ByteBuffer.allocateDirect(1000 + random.nextInt(100000));
            if (round == 60) ready.countDown();
            if (round % 500 == 0) System.gc();
            try {
                Thread.sleep(round >= 60 && STANDS_STILL ? 3600000 : 5);
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    public static void main(String[] words) throws Exception {
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            new Thread(() -> churn(number), "churn-" + i).start();
        }
        ready.await();
        System.out.println("ready");
        Thread.sleep(3600000);
    }
}
